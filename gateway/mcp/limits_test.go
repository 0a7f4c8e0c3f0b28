package mcp

import (
	"context"
	"fmt"
	"net"
	"net/http"
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

// A request whose connection was closed for another one at the last moment is not served.
func TestReplacedIsNotServed(t *testing.T) {
	l := &listener{open: quota{most: 2}}
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := l.admit(ours)
	if !l.replace("other") {
		t.Fatal("the connection is not closed")
	}
	if _, ok := serving(context.WithValue(t.Context(), http.LocalAddrContextKey, c.LocalAddr())); ok {
		t.Error("the request is served")
	}
	if err := c.Close(); err != nil || l.open.taken != 1 || l.open.held["other"] != 1 || l.waiting.Len() != 0 {
		t.Errorf("left are %+v, %v", l.open, err)
	}
}
