package tokenstore

import (
	"maps"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// Rate limit of narrowing the tokens of one root family, for each dispatcher.
const (
	narrowAtOnce    = 100
	narrowPerSecond = 20
	// maxNarrowers is the number of root families from which on those that were not narrowed lately are removed.
	maxNarrowers = 1000
)

// narrowings limits how often the tokens of each root family are narrowed. The zero value is ready to use. It is safe
// for concurrent use.
type narrowings struct {
	mu   sync.Mutex
	root map[string]*flow.Bucket
}

// take reports whether a token of the root family may be narrowed now, and counts it if so.
func (n *narrowings) take(root string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.root == nil {
		n.root = map[string]*flow.Bucket{}
	}
	if len(n.root) >= maxNarrowers {
		maps.DeleteFunc(n.root, func(_ string, b *flow.Bucket) bool { return b.Idle(now) })
	}
	b := n.root[root]
	if b == nil {
		b = &flow.Bucket{Rate: narrowPerSecond, Burst: narrowAtOnce}
		n.root[root] = b
	}
	return b.Take(now)
}
