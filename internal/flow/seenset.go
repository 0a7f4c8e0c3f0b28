package flow

import (
	"iter"
	"sync"
)

// most is how many names are remembered at the least, if there were so many, and twice as many at the most.
const most = 20_000

// SeenSet is a set of the names that were last put into it. The zero value is empty. It is safe for concurrent use.
type SeenSet struct {
	mu         sync.Mutex
	young, old map[string]bool
}

// Has reports whether a name is remembered.
func (n *SeenSet) Has(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.young[name] || n.old[name]
}

// Add remembers names, and may forget others.
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
