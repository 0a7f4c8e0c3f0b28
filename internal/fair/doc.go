// Package fair shares what is scarce between senders. A [Queue] holds what they sent, within bounds for each actor,
// each tenant and all, and says whose turn it is: tenants take turns, and within one its actors, each for about as many
// bytes as the others. So whatever one sender does, another waits for little more than its own. It knows neither
// messages nor goroutines: whoever works asks for the next job. [Tallies] count what was let in and
// has not ended. Start reading at queue.go.
package fair
