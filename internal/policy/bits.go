package policy

import (
	"iter"
	"math/bits"
)

// laneSet is a set of lanes, by their index in a snapshot.
type laneSet []uint64

func newLaneSet(lanes int) laneSet { return make(laneSet, (lanes+63)/64) }

func (s laneSet) add(lane int)      { s[lane/64] |= 1 << (lane % 64) }
func (s laneSet) has(lane int) bool { return s[lane/64]&(1<<(lane%64)) != 0 }

// addAll adds the lanes of t.
func (s laneSet) addAll(t laneSet) {
	for i, word := range t {
		s[i] |= word
	}
}

// meets reports whether s and t have a lane in common.
func (s laneSet) meets(t laneSet) bool {
	for i, word := range s {
		if word&t[i] != 0 {
			return true
		}
	}
	return false
}

// both yields the lanes that s and t have in common, in order.
func (s laneSet) both(t laneSet) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, word := range s {
			for word &= t[i]; word != 0; word &= word - 1 {
				if !yield(i*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}
