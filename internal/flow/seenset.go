package flow

import (
	"iter"
	"sync"
)

// most is the size of each of the two generations of a set. A set holds at most twice as many names.
const most = 20_000

// SeenSet is a bounded set of names that drops the oldest ones. The zero value is empty. It is safe for concurrent use.
type SeenSet struct {
	mu         sync.Mutex
	young, old map[string]bool
}

// Has reports whether the set contains a name.
func (n *SeenSet) Has(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.young[name] || n.old[name]
}

// Add adds names, and may drop older ones.
func (n *SeenSet) Add(names iter.Seq[string]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range names {
		if n.young == nil || len(n.young) >= most {
			n.young, n.old = map[string]bool{}, n.young
		}
		n.young[name] = true
	}
}
