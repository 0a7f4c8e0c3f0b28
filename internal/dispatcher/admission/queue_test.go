package admission

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// waiting is an arrival with a body of n bytes.
func waiting(n int) arrival {
	return arrival{Call: &check.Call{Request: &check.Request{In: &call.IncomingRequest{Body: make([]byte, n)}}}}
}

// One caller at a time serves a queue, which is kept until it has no request and nobody serves it.
func TestOneServesAQueue(t *testing.T) {
	all, key := NewQueues(), subjects.Key{Tool: "echo", ID: "id"}
	known := call.State{Position: call.Position{Seq: 7}}
	q := all.enter(key, waiting(1), known)
	if q == nil || all.enter(key, waiting(1), call.State{}) != nil {
		t.Fatal("the first request is not served by its caller, or the second is")
	}
	all.Retire(&q.Line)
	if all.Line(key) != &q.Line || all.Len() != 1 {
		t.Error("a busy queue is removed")
	}
	if batch, s := q.take(); len(batch) != 2 || s.Seq != known.Seq {
		t.Errorf("%d requests, state at %d", len(batch), s.Seq)
	}
	if batch, _ := q.take(); len(batch) != 0 {
		t.Errorf("%d requests are left", len(batch))
	}
	all.Retire(&q.Line)
	if all.Line(key) != nil || all.Len() != 0 {
		t.Error("an idle queue is kept")
	}
	later := all.enter(key, waiting(1), call.State{})
	if all.Retire(&q.Line); later == nil || later == q || all.Line(key) != &later.Line {
		t.Error("the end of a queue removes the one after it")
	}
}

// A queue whose log does not answer drops requests beyond its bound, and its clients send them again.
func TestFullQueueDropsRequests(t *testing.T) {
	all, key := NewQueues(), subjects.Key{Tool: "echo", ID: "id"}
	q := all.enter(key, waiting(1), call.State{})
	for range 3 {
		if all.enter(key, waiting(maxArriving/2), call.State{}) != nil {
			t.Error("a queue that is served is served twice")
		}
	}
	if batch, _ := q.take(); len(batch) != 2 {
		t.Errorf("%d requests wait, want 2", len(batch))
	}
}
