package flow

import (
	"sync"
	"time"
)

// TTLMap remembers what was found out under some names, each for a time. It is safe for concurrent use.
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

// NewTTLMap returns an empty one, which keeps so many facts at the most, and each so long.
func NewTTLMap[V any](most int, lasts time.Duration) *TTLMap[V] {
	return &TTLMap[V]{most: most, lasts: lasts, all: map[string]fact[V]{}}
}

// Get returns what is known under a name: the zero value where nothing is.
func (f *TTLMap[V]) Get(name string, now time.Time) (none V) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.all[name]; ok && known.until.After(now) {
		return known.what
	}
	delete(f.all, name)
	return none
}

// Put keeps a fact. Where there is no room, any other is forgotten.
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
