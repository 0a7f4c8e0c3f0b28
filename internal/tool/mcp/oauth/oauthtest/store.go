package oauthtest

import (
	"context"
	"errors"
	"sync"
)

// Store is a store of entries in memory.
type Store struct {
	mu       sync.Mutex
	data     map[string][]byte
	revision uint64
	away     bool
}

// Read returns an entry and its revision.
func (s *Store) Read(_ context.Context, id string) ([]byte, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, 0, errors.New("the bus is away")
	}
	if s.data[id] == nil {
		return nil, 0, nil
	}
	return s.data[id], s.revision, nil
}

// Write stores an entry if its revision is still the given one.
func (s *Store) Write(_ context.Context, id string, data []byte, revision uint64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return false, errors.New("the bus is away")
	}
	now := s.revision
	if s.data[id] == nil {
		now = 0
	}
	if revision != now {
		return false, nil
	}
	if s.data == nil {
		s.data = map[string][]byte{}
	}
	s.revision++
	s.data[id] = data
	return true, nil
}

// Away makes the store fail, or work again.
func (s *Store) Away(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = is
}

// Change changes all entries. change may return nil to remove one.
func (s *Store) Change(change func(data []byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, data := range s.data {
		s.revision++
		s.data[id] = change(append([]byte(nil), data...))
	}
}
