package flow

import (
	"sync"
	"time"
)

// TTLMap is a bounded map whose entries expire. It is safe for concurrent use.
type TTLMap[V any] struct {
	most  int
	lasts time.Duration

	mu  sync.Mutex
	all map[string]fact[V]
}

type fact[V any] struct {
	what  V
	until time.Time
}

// NewTTLMap returns an empty map of at most most entries, each of which expires after lasts.
func NewTTLMap[V any](most int, lasts time.Duration) *TTLMap[V] {
	return &TTLMap[V]{most: most, lasts: lasts, all: map[string]fact[V]{}}
}

// Get returns the value of a name. It returns the zero value if the name has no entry or an expired one.
func (f *TTLMap[V]) Get(name string, now time.Time) (none V) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.all[name]; ok && known.until.After(now) {
		return known.what
	}
	delete(f.all, name)
	return none
}

// Put sets the value of a name. If the map is full, it first removes an arbitrary other entry.
func (f *TTLMap[V]) Put(name string, what V, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other := range f.all {
		if len(f.all) < f.most {
			break
		}
		delete(f.all, other)
	}
	f.all[name] = fact[V]{what, now.Add(f.lasts)}
}
