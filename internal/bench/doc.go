// Package bench implements `toolbus bench`. It measures Toolbus against the two pipelines of package baseline, on the
// same server in the same run: the leanest hand-written pipeline, and the bare writes of Toolbus's own protocol.
//
// Machines differ and their speed changes during a run, so the targets are ratios. All sides run in alternating rounds
// on one server. Every number is a median over rounds, and a ratio is the median of the ratios of neighbouring rounds.
// The warm-up does not count. The CPU time of a round is that of this process and of the server until all work is done,
// so that work after the answer (audit record, acknowledgements) counts too.
//
// matrix.go has the comparison, sides.go the sides, stats.go the statistics, and trips.go counts round trips. drain.go,
// many.go, idle.go, stream.go, flood.go, large.go, identity.go and mcp.go have the other scenarios. product.go starts
// Toolbus, load.go makes the calls, and usage.go reads what they use.
package bench
