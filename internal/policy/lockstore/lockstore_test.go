package lockstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/policy/lockstore"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// offices are services of dispatchers on one bus, with what they have recorded.
type offices struct {
	*bustest.Bus
	mu      sync.Mutex
	events  []audit.Record
	refuses error
	lawless bool // no policy is in force
}

func (o *offices) open() *lockstore.Service {
	o.T.Helper()
	js, err := jetstream.New(o.Srv.Connect(o.T))
	if err != nil {
		o.T.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	copies, err := replica.OpenCopies(o.T.Context(), js, log)
	if err != nil {
		o.T.Fatal(err)
	}
	s, err := lockstore.Open(o.T.Context(), js, copies, log)
	if err != nil {
		o.T.Fatal(err)
	}
	return &lockstore.Service{Store: s, Record: o.record, Now: time.Now, Policy: o.policy}
}

// policy has the tools echo and echo0 to echo64, and the lane night; or there is none.
func (o *offices) policy(context.Context) (*policy.Snapshot, error) {
	if o.lawless {
		return nil, policy.ErrNone
	}
	var entries []policy.Entry
	for i := range 66 {
		entries = append(entries, policy.Entry{
			ToolName: strings.TrimSuffix(fmt.Sprint("echo", i), "65"), Description: "d", Enabled: true, TimeoutDefaultMS: 1000,
			AllowedLanes: []string{"night"},
		})
	}
	set, err := policy.Parse(policy.Write(nil, []policy.Lane{{ID: "night", AllowedTools: []string{"*"}}}, entries))
	if err != nil {
		o.T.Fatal(err)
	}
	return policy.Compile(set, nil)
}

func (o *offices) record(_ context.Context, r audit.Record) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refuses == nil {
		o.events = append(o.events, r)
	}
	return o.refuses
}

// served is open, and the board is kept up to date until stop is called.
func (o *offices) served() (s *lockstore.Service, stop func()) {
	o.T.Helper()
	s = o.open()
	return s, bustest.Run(o.T, s.Store.Run)
}

var ada = call.Sender{Tenant: "acme", Actor: "user://ada"}

func request(tool string) envelope.LockRequest {
	return envelope.LockRequest{LockTarget: envelope.LockTarget{Tool: tool}, Reason: "INC-7"}
}

func (o *offices) lock(s *lockstore.Service, q envelope.LockRequest) envelope.LocksResponse {
	o.T.Helper()
	ctx, cancel := context.WithTimeout(o.T.Context(), time.Minute) // the server of a busy machine may take seconds
	defer cancel()
	a, refusal := s.Lock(ctx, ada, q)
	if refusal != nil {
		o.T.Fatal(refusal, refusal.Cause)
	}
	return a
}

// becomes waits until a board says of a tool what is wanted, and returns how long that took.
func (o *offices) becomes(s *lockstore.Service, locked bool, want error) time.Duration {
	o.T.Helper()
	began := time.Now()
	for {
		l, err := s.Store.Board.Find(o.T.Context(), "echo", "")
		if errors.Is(err, want) && (l != nil) == locked {
			return time.Since(began)
		}
		if time.Since(began) > 10*time.Second {
			o.T.Fatalf("%+v, %v: want locked %t, %v", l, err, locked, want)
		}
	}
}

// A lock that one dispatcher sets all know within a second, and that it is cleared, too. Each is an event.
func TestLocksAreShared(t *testing.T) {
	o := &offices{Bus: bustest.Start(t)}
	watch := timertest.StartStallMeter()
	defer watch.End()
	one, _ := o.served()
	two, _ := o.served()
	o.becomes(one, false, nil)
	o.becomes(two, false, nil)
	if a := o.lock(one, request("echo")); !a.Changed || a.Unchecked || len(a.Locks) != 1 ||
		a.Locks[0].By != "acme/user://ada" || a.Locks[0].Reason != "INC-7" || time.Since(a.Locks[0].At) > time.Minute {
		t.Errorf("%+v", a)
	}
	if a := o.lock(two, request("echo")); a.Changed || len(a.Locks) != 1 {
		t.Errorf("again: %+v", a)
	}
	for _, s := range []*lockstore.Service{one, two} {
		if took := o.becomes(s, true, nil); took > time.Second+watch.Late() {
			t.Errorf("a lock took %s", took)
		}
	}
	if a := o.lock(two, request("echo7")); !a.Changed || len(a.Locks) != 2 {
		t.Errorf("of another tool: %+v", a)
	}
	a, refusal := two.Unlock(t.Context(), ada, request("echo"))
	if refusal != nil || !a.Changed || len(a.Locks) != 1 {
		t.Errorf("%+v, %v", a, refusal)
	}
	if took := o.becomes(one, false, nil); took > time.Second+watch.Late() {
		t.Errorf("the end of a lock took %s", took)
	}
	if a, refusal := one.Unlock(t.Context(), ada, request("echo")); refusal != nil || a.Changed {
		t.Errorf("cleared twice: %+v, %v", a, refusal)
	}
	if all, refusal := one.List(t.Context()); refusal != nil || len(all.Locks) != 1 || all.Locks[0].Tool != "echo7" {
		t.Errorf("%+v, %v", all, refusal)
	}
	events := []audit.Event{}
	for _, r := range o.events {
		events = append(events, r.Event)
		if r.Tenant != "acme" || r.Actor != "user://ada" || r.Lock == nil || r.Lock.Target != "tool" || r.ToolName == "" {
			t.Errorf("%+v", r)
		}
	}
	if want := []audit.Event{audit.LockSet, audit.LockSet, audit.LockCleared}; !slices.Equal(events, want) {
		t.Errorf("events %v, want %v", events, want)
	}
}

// A dispatcher that cannot read the locks, or was suspended, admits nothing a second later.
func TestUnreadLocks(t *testing.T) {
	o := &offices{Bus: bustest.Start(t)}
	s, stop := o.served()
	other, _ := o.served()
	o.becomes(s, false, nil)
	stop() // as if its process were suspended
	o.lock(other, request("echo"))
	watch := timertest.StartStallMeter()
	defer watch.End()
	if took := o.becomes(s, false, lock.ErrStale); took > 2*time.Second+watch.Late() {
		t.Errorf("it admitted for %s", took)
	}
	bustest.Run(t, s.Store.Run)
	o.becomes(s, true, nil)
	o.Srv.Stop()
	o.becomes(s, false, lock.ErrStale)
	o.Srv.Restart()
	o.becomes(s, true, nil)
}

// Operators lock at the same time, and no lock is lost.
func TestManyAtOnce(t *testing.T) {
	o := &offices{Bus: bustest.Start(t)}
	s := o.open()
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() { o.lock(s, request(fmt.Sprint("echo", i))) })
	}
	all.Wait()
	a, refusal := s.List(t.Context())
	if refusal != nil || len(a.Locks) != 64 || len(o.events) != 64 {
		t.Errorf("%d locks, %d events, %v", len(a.Locks), len(o.events), refusal)
	}
	if _, refusal := s.Lock(t.Context(), ada, request("echo64")); refusal == nil ||
		refusal.Code != envelope.CodeLimit {
		t.Errorf("one too many: %v", refusal)
	}
	q := request("echo0")
	q.Reason = "another"
	if a, refusal := s.Lock(t.Context(), ada, q); refusal != nil || !a.Changed || len(a.Locks) != 64 ||
		a.Locks[63].Reason != "another" {
		t.Errorf("another reason: %+v, %v", a, refusal)
	}
}

// What is not recorded is not done, and what makes no sense neither.
func TestRefusedLocks(t *testing.T) {
	o := &offices{Bus: bustest.Start(t)}
	s := o.open()
	long := strings.Repeat("x", 301)
	for _, q := range []envelope.LockRequest{
		{}, {Reason: "r"}, {LockTarget: envelope.LockTarget{All: true}}, {LockTarget: envelope.LockTarget{Tool: long},
			Reason: "r"}, {LockTarget: envelope.LockTarget{Lane: long}, Reason: "r"},
		{LockTarget: envelope.LockTarget{All: true, Lane: "l"}, Reason: "r"},
		{LockTarget: envelope.LockTarget{All: true}, Reason: long},
	} {
		if _, refusal := s.Lock(t.Context(), ada, q); refusal == nil || refusal.Code != envelope.CodeMalformed {
			t.Errorf("%.100v: %v", q, refusal)
		}
	}
	o.refuses = audit.ErrRefused
	if _, refusal := s.Lock(t.Context(), ada, request("echo")); refusal == nil || refusal.Code != envelope.CodeAuditLag {
		t.Errorf("unrecorded: %v", refusal)
	}
	if a, refusal := s.List(t.Context()); refusal != nil || len(a.Locks) > 0 {
		t.Errorf("%+v, %v", a, refusal)
	}
}

// Locks that a newer build wrote are not guessed at: nothing is admitted.
func TestLocksOfANewerForm(t *testing.T) {
	o := &offices{Bus: bustest.Start(t)}
	s, _ := o.served()
	o.becomes(s, false, nil)
	if _, err := o.JS.Publish(t.Context(), subjects.Locks, []byte(`{"form":9,"locks":[]}`)); err != nil {
		t.Fatal(err)
	}
	o.becomes(s, false, lock.ErrStale)
	if _, refusal := s.List(t.Context()); refusal == nil || refusal.Code != envelope.CodeUnavailable {
		t.Errorf("%v", refusal)
	}
}

// A lock on what the policy in force does not have locks nothing, so it is refused. Without a policy it is set, and
// the operator is told that nobody has checked its name. A lock is cleared in any case.
func TestLocksOfUnknownNames(t *testing.T) {
	o := &offices{Bus: bustest.Start(t)}
	s, _ := o.served()
	typos := []envelope.LockTarget{{Tool: "ecko"}, {Lane: "nigth"}}
	for _, typo := range typos {
		_, refusal := s.Lock(t.Context(), ada, envelope.LockRequest{LockTarget: typo, Reason: "r"})
		if refusal == nil || refusal.Code != envelope.CodeMalformed ||
			!strings.Contains(refusal.Message, typo.Tool+typo.Lane) {
			t.Errorf("%v: %v", typo, refusal)
		}
	}
	for _, known := range []envelope.LockTarget{{All: true}, {Lane: "night"}} {
		a, refusal := s.Lock(t.Context(), ada, envelope.LockRequest{LockTarget: known, Reason: "r"})
		if refusal != nil || !a.Changed || a.Unchecked {
			t.Errorf("%v: %+v, %v", known, a, refusal)
		}
	}
	o.lawless = true
	for _, typo := range typos {
		a, refusal := s.Lock(t.Context(), ada, envelope.LockRequest{LockTarget: typo, Reason: "r"})
		if refusal != nil || !a.Changed || !a.Unchecked {
			t.Errorf("%v without a policy: %+v, %v", typo, a, refusal)
		}
	}
	o.lawless = false
	for _, typo := range typos {
		a, refusal := s.Unlock(t.Context(), ada, envelope.LockRequest{LockTarget: typo, Reason: "r"})
		if refusal != nil || !a.Changed {
			t.Errorf("%v cleared: %+v, %v", typo, a, refusal)
		}
	}
}

// A request is carried out once, and only while the locks are as its sender has seen them. One that finds nothing to
// do moves them on, too.
func TestLateRequests(t *testing.T) {
	o := &offices{Bus: bustest.Start(t)}
	s, _ := o.served()
	seen := func() *uint64 {
		a, refusal := s.List(t.Context())
		if refusal != nil {
			t.Fatal(refusal)
		}
		return a.Revision
	}
	as := func(id string) context.Context { return call.NewContext(t.Context(), call.Credential{Request: id}) }
	expecting := func(revision *uint64) envelope.LockRequest {
		q := request("echo")
		q.Expect = revision
		return q
	}
	o.lock(s, request("echo"))
	before := seen()
	if a, refusal := s.Lock(as("again"), ada, expecting(before)); refusal != nil || a.Changed || *a.Revision == *before {
		t.Errorf("nothing to do: %+v, %v", a, refusal)
	}
	if _, refusal := s.Unlock(as("late"), ada, expecting(before)); refusal == nil ||
		refusal.Code != envelope.CodeChanged {
		t.Errorf("a late unlock: %v", refusal)
	}
	now := seen()
	for range 2 { // the second is a copy
		if a, refusal := s.Unlock(as("once"), ada, expecting(now)); refusal != nil || !a.Changed || len(a.Locks) != 0 {
			t.Errorf("%+v, %v", a, refusal)
		}
	}
	if len(o.events) != 2 {
		t.Errorf("%d events, want one of each change", len(o.events))
	}
	late, cancel := context.WithDeadline(as("too late"), time.Now().Add(-time.Second))
	defer cancel()
	if _, refusal := s.Lock(late, ada, request("echo")); refusal == nil {
		t.Error("set after the deadline")
	}
}
