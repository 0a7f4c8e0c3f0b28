package runstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// S4: a run whose record is larger than 4 KiB is refused, and the answer says how large it would be, and where.
func TestLargeRuns(t *testing.T) {
	o := serve(t)
	actors := func(n int) []string { return slices.Repeat([]string{"agent://a/" + strings.Repeat("x", 200)}, n) }
	_, refusal := o.Start(t.Context(), agent(nil), envelope.RunStartRequest{ID: "large", Actors: actors(18)})
	if codeOf(refusal) != envelope.CodeLimit || !strings.Contains(refusal.Message, "of 4096 that it may") ||
		len(refusal.Details.Violations) != 1 || refusal.Details.Violations[0].Pointer != "/actors" ||
		!strings.Contains(refusal.Diagnostic.SuggestedFix, "fewer actors") {
		t.Errorf("a run of 18 actors: %+v", refusal)
	}
	if names := o.recorded(); len(names) > 0 {
		t.Errorf("on record: %v", names)
	}
	o.starts(agent(nil), envelope.RunStartRequest{ID: "small", Actors: actors(15)})
	if _, refusal := o.Change(t.Context(), agent(nil), envelope.RunChangeRequest{
		ID: "small", State: string(policy.RunClosed),
	}); refusal != nil {
		t.Error(refusal)
	}
}

// fill sets the size of the bucket so that a share of it is in use, in per cent.
func (o *office) fill(share int64) {
	o.p.T.Helper()
	stream, err := o.p.JS.Stream(o.p.T.Context(), subjects.RunsStream)
	if err != nil {
		o.p.T.Fatal(err)
	}
	info, err := stream.Info(o.p.T.Context())
	if err != nil {
		o.p.T.Fatal(err)
	}
	info.Config.MaxBytes = int64(info.State.Bytes) * 100 / share
	if _, err := o.p.JS.UpdateStream(o.p.T.Context(), info.Config); err != nil {
		o.p.T.Fatal(err)
	}
}

// S4: a nearly full bucket refuses new runs, of agents first and then of operators, so that changes still have room.
func TestNearlyFullBucket(t *testing.T) {
	o := serve(t)
	for n := range 50 {
		o.starts(operator, envelope.RunStartRequest{ID: fmt.Sprint("r", n), Actors: []string{"agent://a"}})
	}
	for _, c := range []struct {
		share int64
		of    envelope.Code // of an agent, and of an operator
		op    envelope.Code
	}{{70, "", ""}, {80, envelope.CodeStoreFull, ""}, {90, envelope.CodeStoreFull, envelope.CodeStoreFull}} {
		o.fill(c.share)
		id := fmt.Sprint("at", c.share)
		_, refused := o.Start(t.Context(), agent(nil), envelope.RunStartRequest{ID: id})
		_, barred := o.Start(t.Context(), operator, envelope.RunStartRequest{ID: "op" + id, Actors: []string{"agent://a"}})
		if codeOf(refused) != c.of || codeOf(barred) != c.op {
			t.Errorf("at %d %%: %v and %v", c.share, refused, barred)
		}
		if refused != nil && !strings.Contains(refused.Message, "bytes in use, of ") {
			t.Errorf("the refusal does not say how much is used: %s", refused.Message)
		}
	}
	o.recorded()
	for n := range 50 { // all can be closed
		if _, refusal := o.Change(t.Context(), operator, envelope.RunChangeRequest{
			ID: fmt.Sprint("r", n), State: string(policy.RunClosed),
		}); refusal != nil {
			t.Fatalf("%d: %v", n, refusal)
		}
	}
}

// S4: in a bucket that is full, runs can be closed and listed, and calls in implicit runs go on.
func TestFullBucket(t *testing.T) {
	o := serve(t)
	for n := range 20 {
		o.starts(operator, envelope.RunStartRequest{ID: fmt.Sprint("r", n), Actors: []string{"agent://a"}})
	}
	known := run("implicit-known")
	known.Implicit = true
	o.p.create(known)
	o.fill(100)
	if a, refusal := o.List(t.Context(), envelope.RunListRequest{}); refusal != nil || len(a.Runs) != 20 {
		t.Errorf("%d runs are listed: %v", len(a.Runs), refusal)
	}
	fresh := run("implicit-fresh")
	fresh.Implicit = true
	for range 2 {
		r, err := o.p.Store.Start(t.Context(), fresh)
		if err != nil || r.State != policy.RunActive || r.Actors[0] != "agent://a" {
			t.Errorf("an implicit run without room: %+v, %v", r, err)
		}
	}
	o.recorded()
	a, refusal := o.Change(t.Context(), operator, envelope.RunChangeRequest{ID: "r1", State: string(policy.RunClosed)})
	if refusal != nil || !a.Changed || a.Run.State != string(policy.RunClosed) || len(o.recorded()) != 1 {
		t.Fatalf("a close: %+v, %v", a, refusal)
	}
	r, err := o.p.Find(t.Context(), "acme", "r1", time.Now())
	if err != nil || r != nil && r.State != policy.RunClosed {
		t.Errorf("after it was closed: %+v, %v", r, err)
	}
	if _, err := o.p.Store.Start(t.Context(), known); err != nil {
		t.Error(err)
	}
	// there is room for the record of the implicit run now
	if _, err := o.p.Store.Start(t.Context(), fresh); err != nil {
		t.Error(err)
	}
	if _, _, err := o.p.Get(t.Context(), "acme", "implicit-fresh"); err != nil {
		t.Errorf("the implicit run is not stored: %v", err)
	}
}
