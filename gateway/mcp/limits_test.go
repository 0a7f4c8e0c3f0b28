package mcp

import (
	"fmt"
	"testing"
)

// However many take all that they get, there is one more for whoever comes next, until what is left cannot be shared.
func TestRoom(t *testing.T) {
	r := quota{most: 1000}
	var had []int
	for i := range 9 {
		who, n := fmt.Sprint(i), 0
		for r.take(who) {
			n++
		}
		had = append(had, n)
	}
	if got, want := fmt.Sprint(had), "[500 250 125 63 31 16 8 4 2]"; got != want {
		t.Errorf("one after the other had %s, want %s", got, want)
	}
	for range 400 {
		r.give("0")
	}
	for range 100 {
		if !r.take("9") {
			t.Fatal("the room that one leaves is nobody's")
		}
	}
	for i, n := range append(had, 100) {
		if i == 0 {
			n -= 400
		}
		for range n {
			r.give(fmt.Sprint(i))
		}
	}
	if r.taken != 0 || len(r.held) != 0 {
		t.Errorf("left are %+v", r)
	}
}
