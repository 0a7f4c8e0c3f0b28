// Package bus is what it takes to be on the bus: the connection, the topology, the clock, the service of dispatchers,
// the inbox of callers, and the follower of the call log.
//
// [Dial] connects and refuses servers that are too old or take too small messages. [Ensure] creates or verifies the
// topology, which is data in topology.go. [Listen] takes calls in and [Serve] answers questions; [Inbox] is the other
// side of both. [Follower] reads the call log in order.
package bus
