package record

import (
	"iter"
	"sync"
)

// maxRemembered is how many names are remembered at the least, if there were so many, and twice as many at the most.
const maxRemembered = 20_000

// remembered is a set of the names that were last put into it. The zero value is empty. It is safe for concurrent use.
type remembered struct {
	mu         sync.Mutex
	young, old map[string]bool
}

func (r *remembered) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.young[name] || r.old[name]
}

func (r *remembered) add(names iter.Seq[string]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range names {
		if r.young == nil || len(r.young) >= maxRemembered {
			r.young, r.old = map[string]bool{}, r.young
		}
		r.young[name] = true
	}
}
