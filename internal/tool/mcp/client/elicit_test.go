package client

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A question reaches a caller only if no other call can have asked it.
func TestAsker(t *testing.T) {
	elicit := func(jsontext.Value) (jsontext.Value, error) { return nil, nil }
	id := func(n float64) jsonrpc.ID {
		made, err := jsonrpc.MakeID(n)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	// sent returns a request of a caller that the server has received.
	sent := func(r *pendingRequests, n float64, caller string) *flight {
		f := &flight{caller: caller, elicit: elicit, id: id(n)}
		r.begin(f)
		r.ids[f.id] = f
		f.sent.Store(true)
		return f
	}
	for name, c := range map[string]struct {
		before func(r *pendingRequests)
		want   bool
	}{
		"alone":               {func(*pendingRequests) {}, true},
		"beside another call": {func(r *pendingRequests) { sent(r, 1, "ada") }, false},
		"after its own":       {func(r *pendingRequests) { r.end(sent(r, 1, "ada")) }, true},
		"after another's":     {func(r *pendingRequests) { r.end(sent(r, 1, "bob")) }, false},
		"after another's, which is answered": {func(r *pendingRequests) {
			r.end(sent(r, 1, "bob"))
			r.answered(&jsonrpc.Response{ID: id(1)})
		}, true},
		"after another's, which was not sent": {func(r *pendingRequests) {
			f := sent(r, 1, "bob")
			f.sent.Store(false)
			r.end(f)
		}, true},
		"after too many": {func(r *pendingRequests) {
			for n := range maxLeft + 1 {
				r.end(sent(r, float64(n+2), "ada"))
			}
		}, false},
	} {
		r := newRouter(func() {})
		c.before(r)
		f := sent(r, 5000, "ada")
		if got := r.asker(); (got == f) != c.want {
			t.Errorf("%s: asked %t", name, !c.want)
		}
		if f.elicit = nil; r.asker() != nil {
			t.Errorf("%s: a caller that cannot be asked is asked", name)
		}
	}
}
