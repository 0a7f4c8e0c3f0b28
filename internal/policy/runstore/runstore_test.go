package runstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/runstore"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// process is a store of one process on a bus.
type process struct {
	*bustest.Bus
	*runstore.Store
	nc *nats.Conn
}

func open(t *testing.T, b *bustest.Bus) process {
	t.Helper()
	nc := b.Srv.Connect(t, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := runstore.Open(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	return process{b, s, nc}
}

func run(id string) envelope.Run {
	return envelope.Run{
		ID: id, Tenant: "acme", Actors: []string{"agent://a"}, Role: "agent", Lanes: []string{"l"},
		State: string(policy.RunActive), Policies: envelope.PolicyVersions{Roles: "r"}, By: "acme/agent://a",
		Start: time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC),
	}
}

func (p process) create(r envelope.Run) {
	p.T.Helper()
	if err := p.Create(p.T.Context(), r); err != nil {
		p.T.Fatal(err)
	}
}

// becomes changes the state of run r1.
func (p process) becomes(state policy.RunState) {
	p.T.Helper()
	_, err := p.Change(p.T.Context(), "acme", "r1", func(r envelope.Run) (envelope.Run, error) {
		r.State = string(state)
		return r, nil
	})
	if err != nil {
		p.T.Fatal(err)
	}
}

// state returns the state of run r1, or "" if the run does not exist.
func (p process) state(current bool) policy.RunState {
	p.T.Helper()
	after := time.Time{}
	if current {
		after = time.Now()
	}
	r, err := p.Find(p.T.Context(), "acme", "r1", after)
	switch {
	case err != nil:
		p.T.Fatal(err)
	case r == nil:
		return ""
	}
	return r.State
}

// questions counts the requests for entries of the bucket, from now on.
func (p process) questions() *atomic.Int64 {
	p.T.Helper()
	n := &atomic.Int64{}
	if _, err := p.NC.Subscribe("$JS.API.STREAM.MSG.GET."+subjects.RunsStream, func(*nats.Msg) { n.Add(1) }); err != nil {
		p.T.Fatal(err)
	}
	if err := p.NC.Flush(); err != nil {
		p.T.Fatal(err)
	}
	return n
}

// A run is found as it was stored, by its tenant alone, and is stored once.
func TestCreate(t *testing.T) {
	b := bustest.Start(t)
	here, there := open(t, b), open(t, b)
	if here.state(false) != "" {
		t.Error("a run was found before it was started")
	}
	here.create(run("r1"))
	for _, p := range []process{here, there} {
		got, err := p.Find(t.Context(), "acme", "r1", time.Time{})
		if err != nil || got == nil || got.Tenant != "acme" || got.Actors[0] != "agent://a" || got.Role != "agent" ||
			got.Lanes[0] != "l" || got.State != policy.RunActive || got.Pinned.Roles != "r" {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := p.Find(t.Context(), "other", "r1", time.Time{}); got != nil || err != nil {
			t.Errorf("of another tenant: %+v, %v", got, err)
		}
		if err := p.Create(t.Context(), run("r1")); !errors.Is(err, runstore.ErrExists) {
			t.Errorf("started again: %v", err)
		}
	}
	r, _, err := there.Get(t.Context(), "acme", "r1")
	if err != nil || r.By != "acme/agent://a" || r.Start != run("").Start {
		t.Errorf("%+v, %v", r, err)
	}
	if _, _, err := there.Get(t.Context(), "acme", "r2"); !errors.Is(err, runstore.ErrNone) {
		t.Errorf("no run: %v", err)
	}
	if _, err := there.Change(t.Context(), "acme", "r2", nil); !errors.Is(err, runstore.ErrNone) {
		t.Errorf("a change of no run: %v", err)
	}
}

// A process that changes a run decides by it at once, every process within a second, and without an older version in
// hand nobody asks twice.
func TestChangesAreSeen(t *testing.T) {
	b := bustest.Start(t)
	here, there := open(t, b), open(t, b)
	here.create(run("r1"))
	if there.state(false) != policy.RunActive {
		t.Error("not active")
	}
	asked := here.questions()
	for range 100 {
		there.state(false)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d questions for a run that was just read", n)
	}
	here.becomes(policy.RunPaused)
	if s := here.state(false); s != policy.RunPaused {
		t.Errorf("the process that paused the run finds it %s", s)
	}
	if s := there.state(true); s != policy.RunPaused {
		t.Errorf("who asks for the current version is told %s", s)
	}
	here.becomes(policy.RunClosed)
	since := time.Now()
	for began := since; there.state(false) != policy.RunClosed; began = time.Now() {
		if late := began.Sub(since); late > time.Second {
			t.Fatalf("the former state is found %s after the change", late)
		}
	}
}

// Many calls of one run ask once for it.
func TestOneQuestion(t *testing.T) {
	b := bustest.Start(t)
	open(t, b).create(run("r1"))
	p := open(t, b)
	asked := p.questions()
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if p.state(false) != policy.RunActive {
				t.Error("not active")
			}
		})
	}
	all.Wait()
	if n := asked.Load(); n > 3 {
		t.Errorf("%d questions for one run", n)
	}
}

// Two processes that change a run at the same time lose no change, also with three servers.
func TestChangesMeet(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *bustest.Bus{
		"one server": func(t *testing.T) *bustest.Bus { return bustest.Start(t) }, "three servers": bustest.StartCluster,
	} {
		t.Run(name, func(t *testing.T) { b := start(t); changesMeet(t, open(t, b), open(t, b)) })
	}
}

func changesMeet(t *testing.T, here, there process) {
	t.Helper()
	here.create(run("r1"))
	var all sync.WaitGroup
	for n := range 20 {
		for _, p := range []process{here, there} {
			all.Go(func() {
				_, err := p.Change(t.Context(), "acme", "r1", func(r envelope.Run) (envelope.Run, error) {
					r.Actors = append(r.Actors, fmt.Sprint(n))
					return r, nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if r, _, err := here.Get(t.Context(), "acme", "r1"); err != nil || len(r.Actors) != 41 {
		t.Errorf("%d actors, %v", len(r.Actors), err)
	}
	failed := errors.New("no")
	if _, err := here.Change(t.Context(), "acme", "r1", func(envelope.Run) (envelope.Run, error) {
		return envelope.Run{}, failed
	}); !errors.Is(err, failed) {
		t.Errorf("a refused change: %v", err)
	}
}

// An implicit run that two dispatchers start at once is one.
func TestStart(t *testing.T) {
	b := bustest.Start(t)
	r := run("implicit-1")
	r.Implicit = true
	var all sync.WaitGroup
	for range 8 {
		p := open(t, b)
		all.Go(func() {
			if got, err := p.Start(t.Context(), r); err != nil || got == nil || got.State != policy.RunActive {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	all.Wait()
	info, err := b.JS.Stream(t.Context(), subjects.RunsStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := info.CachedInfo().State.LastSeq; n != 1 {
		t.Errorf("%d records were written", n)
	}
}

// While the bucket does not answer, there is an error in time, and what is known is used no longer than a second.
func TestSilentBucket(t *testing.T) {
	b := bustest.Start(t)
	p := open(t, b)
	p.create(run("r1"))
	b.Srv.Stop()
	since := time.Now()
	for {
		asked := time.Now()
		_, err := p.Find(t.Context(), "acme", "r1", time.Time{})
		if err != nil {
			if took := time.Since(asked); took > 5*time.Second {
				t.Errorf("the error took %s", took)
			}
			break
		}
		if late := asked.Sub(since); late > time.Second {
			t.Fatalf("an old version is used after %s", late)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Find(ctx, "acme", "r1", time.Time{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	b.Srv.Restart()
	for time.Since(since) < time.Minute {
		if r, err := p.Find(t.Context(), "acme", "r1", time.Time{}); err == nil && r != nil {
			return
		}
	}
	t.Error("the run is not found again")
}

// Find returns an error for a record of a newer form, and no run for a deleted record.
func TestForeignRecords(t *testing.T) {
	b := bustest.Start(t)
	p := open(t, b)
	p.create(run("r1"))
	for _, body := range []string{`{"form":99}`, ""} {
		if _, err := b.JS.Publish(t.Context(), subjects.Run("acme", "r1"), []byte(body)); err != nil {
			t.Fatal(err)
		}
		if r, err := p.Find(t.Context(), "acme", "r1", time.Now()); r != nil || (err == nil) != (body == "") {
			t.Errorf("%q: %+v, %v", body, r, err)
		}
	}
	if p.create(run("r1")); p.state(false) != policy.RunActive {
		t.Error("a run cannot be started where one was deleted")
	}
}

// The server forgets implicit and closed runs after a time, and keeps the others.
func TestRecordsExpire(t *testing.T) {
	b := bustest.Start(t)
	p := open(t, b)
	for name, c := range map[string]struct {
		implicit bool
		state    policy.RunState
		hours    int
	}{
		"active": {false, policy.RunActive, 0}, "paused": {false, policy.RunPaused, 0},
		"closed": {false, policy.RunClosed, 72}, "implicit": {true, policy.RunActive, 24},
		"implicit, paused": {true, policy.RunPaused, 91 * 24}, "implicit, closed": {true, policy.RunClosed, 91 * 24},
	} {
		r := run(name)
		r.Implicit, r.State = c.implicit, string(c.state)
		p.create(r)
		stream, err := b.JS.Stream(t.Context(), subjects.RunsStream)
		if err != nil {
			t.Fatal(err)
		}
		msg, err := stream.GetLastMsgForSubject(t.Context(), subjects.Run("acme", name))
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if c.hours > 0 {
			want = fmt.Sprint(c.hours * 3600)
		}
		if got := msg.Header.Get(jetstream.MsgTTLHeader); got != want {
			t.Errorf("%s: kept for %q s, want %q", name, got, want)
		}
	}
}

// The leader of the bucket answers, and a full bucket takes no run in place of another.
func TestBucket(t *testing.T) {
	b := bustest.Start(t)
	stream, err := b.JS.Stream(t.Context(), subjects.RunsStream)
	if err != nil {
		t.Fatal(err)
	}
	if c := stream.CachedInfo().Config; c.AllowDirect || c.Discard != jetstream.DiscardNew || c.MaxBytes <= 0 {
		t.Errorf("%+v", c)
	}
}
