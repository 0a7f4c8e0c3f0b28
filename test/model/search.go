package model

// move is one step of a small world: where it leads, in words, and the promise that it breaks.
type move[W comparable] struct {
	to       W
	did, bad string
}

// search visits every world to which the moves lead from first, nearest first, until a promise is broken. It
// remembers the worlds themselves, which is for small explorations; [Explore] is for large ones.
func search[W comparable](first W, moves func(W) []move[W]) Result {
	seen := map[W]string{first: ""}
	before := map[W]W{}
	for level, depth := []W{first}, 0; ; depth++ {
		var next []W
		for _, w := range level {
			for _, s := range moves(w) {
				if s.bad != "" {
					return Result{States: len(seen), Depth: depth + 1, Bad: s.bad, Trace: append(way(w, seen, before), s.did)}
				}
				if _, known := seen[s.to]; !known {
					seen[s.to], before[s.to] = s.did, w
					next = append(next, s.to)
				}
			}
		}
		if len(next) == 0 {
			return Result{States: len(seen), Depth: depth}
		}
		level = next
	}
}

// way says in words how w was reached.
func way[W comparable](w W, did map[W]string, before map[W]W) []string {
	b, ok := before[w]
	if !ok {
		return nil
	}
	return append(way(b, did, before), did[w])
}
