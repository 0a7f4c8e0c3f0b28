// Package bench implements `toolbus-lab bench`. It measures Toolbus against the two pipelines of package baseline, on
// the same server in the same run: the leanest hand-written pipeline, and the bare writes of Toolbus's own protocol.
//
// Machines differ and their speed changes during a run, so the targets are ratios. All sides run in alternating rounds
// on one server. Every number is a median over rounds, and a ratio is the median of the ratios of neighbouring rounds.
// The warm-up does not count. The CPU time of a round is the time of this process and of the server until all work is
// done, so that work after the answer (audit record, acknowledgements) counts too.
//
// The comparison is in matrix.go, the sides in sides.go, the statistics in stats.go, and the count of round trips in
// trips.go. The other scenarios are in drain.go, many.go, idle.go, stream.go, flood.go, large.go, identity.go and
// mcp.go. Toolbus is started in product.go, the calls are made in load.go, and usage.go reads what they use.
package bench
