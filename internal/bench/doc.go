// Package bench measures Toolbus against packages rawpipeline and floor: the full path of a call
// beside the leanest hand-rolled pipeline, and beside the writes of its own protocol and nothing
// else, on the same server in the same run. It backs `toolbus bench`.
//
// The speed of machines differs and drifts, so what counts is ratios. All sides run in
// alternating rounds on one server; every number is a median over rounds, and a ratio is the
// median of the ratios of neighbouring rounds. Warm-up is not counted. The CPU of a round is
// that of this process and of the server, until nothing is on its way any more: what is done
// after the answer (audit, acknowledgements) is counted too.
//
// matrix.go holds the comparison, sides.go what is compared, stats.go what is made of it, and
// trips.go counts round trips; drain.go, many.go, idle.go and stream.go the other promises
// about speed. product.go starts the real product, load.go makes the calls, usage.go counts.
package bench
