package runstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/runstore"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// narrowed returns an agent with a token that was narrowed from that of agent(nil).
func narrowed() runstore.Sender {
	return agent(func(p *auth.Principal) { p.Family, p.Chain = "familynarrowed", []string{"family"} })
}

// is checks the state of a run for calls, for those who look at it, and in the list of active runs.
func (o *office) is(id string, want policy.RunState) {
	o.p.T.Helper()
	ctx := o.p.T.Context()
	found, err := o.p.Find(ctx, "acme", id, time.Time{})
	if err != nil || found == nil || found.State != want {
		o.p.T.Errorf("calls find %s as %+v, %v; want %s", id, found, err, want)
	}
	if known, ok := o.p.Known("acme", id); !ok || known.State != want {
		o.p.T.Errorf("known is %s as %+v, %t; want %s", id, known, ok, want)
	}
	a, refusal := o.Show(ctx, operator, envelope.RunRequest{ID: id})
	if refusal != nil || a.Run.State != string(want) {
		o.p.T.Errorf("%s is shown as %+v, %v; want %s", id, a.Run, refusal, want)
	}
	page, refusal := o.List(ctx, envelope.RunListRequest{State: string(want)})
	if refusal != nil || len(page.Runs) != 1 || page.Runs[0].ID != id {
		o.p.T.Errorf("of the state %s are listed %+v, %v", want, page, refusal)
	}
}

// S4: the run of an agent ends with the family of the token that started it: when that ends, when it or one that it was
// narrowed from is revoked, or all tokens of the actor are. It cannot be resumed, and can be closed.
func TestRunsEndWithTheirFamily(t *testing.T) {
	revokedBy := func(families map[string]bool, actors map[[2]string]time.Time) func(*office) {
		return func(o *office) {
			o.Store.Revoked = &auth.Revocations{}
			o.Store.Revoked.Replace(families, actors)
		}
	}
	late := func(d time.Duration) func(*office) {
		return func(o *office) { o.Store.Now = func() time.Time { return issued.Add(d) } }
	}
	for what, c := range map[string]struct {
		by    runstore.Sender
		after func(*office)
		want  policy.RunState
	}{
		"before the end of the token":  {agent(nil), late(time.Hour - time.Second), policy.RunActive},
		"at the end of the renewals":   {agent(nil), late(time.Hour), policy.RunClosed},
		"another family is revoked":    {agent(nil), revokedBy(map[string]bool{"other": true}, nil), policy.RunActive},
		"the family is revoked":        {agent(nil), revokedBy(map[string]bool{"family": true}, nil), policy.RunClosed},
		"its root is revoked":          {narrowed(), revokedBy(map[string]bool{"family": true}, nil), policy.RunClosed},
		"tokens of the actor, later":   {agent(nil), revokedBy(nil, actorAt(issued.Add(time.Second))), policy.RunClosed},
		"tokens of the actor, earlier": {agent(nil), revokedBy(nil, actorAt(issued.Add(-time.Second))), policy.RunActive},
		"the run of an operator":       {operator, late(100 * 24 * time.Hour), policy.RunActive},
	} {
		t.Run(what, func(t *testing.T) {
			o := serve(t)
			o.starts(c.by, envelope.RunStartRequest{ID: "r1", Actors: []string{"agent://a"}})
			o.is("r1", policy.RunActive)
			c.after(o)
			o.is("r1", c.want)
			if c.want == policy.RunActive {
				return
			}
			change := func(state policy.RunState) envelope.Code {
				_, refusal := o.Change(t.Context(), operator, envelope.RunChangeRequest{ID: "r1", State: string(state)})
				return codeOf(refusal)
			}
			if code := change(policy.RunPaused); code != envelope.CodeRunState {
				t.Errorf("it can be paused: %q", code)
			}
			if code := change(policy.RunClosed); code != "" {
				t.Errorf("it cannot be closed: %s", code)
			}
		})
	}
}

func actorAt(at time.Time) map[[2]string]time.Time {
	return map[[2]string]time.Time{{"acme", "agent://a"}: at}
}

// The server forgets the run of an agent when its family ends, also after it was paused.
func TestForgottenWithTheFamily(t *testing.T) {
	o := serve(t)
	by := agent(func(p *auth.Principal) { p.Expires, p.RenewUntil = time.Now().Add(3*time.Second), time.Time{} })
	a := o.starts(by, envelope.RunStartRequest{ID: "r1"})
	if !a.Run.Expires.Equal(by.Token.Expires) {
		t.Errorf("it ends at %s, not at %s", a.Run.Expires, by.Token.Expires)
	}
	pause := envelope.RunChangeRequest{ID: "r1", State: string(policy.RunPaused)}
	if _, refusal := o.Change(t.Context(), operator, pause); refusal != nil {
		t.Fatal(refusal)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for there := true; there; {
		r, err := o.p.Find(ctx, "acme", "r1", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		there = r != nil || o.places() > 0
	}
}

// places returns the number of runs that count for the root family of agent(nil).
func (o *office) places() int {
	o.p.T.Helper()
	stream, err := o.p.JS.Stream(o.p.T.Context(), subjects.RunsStream)
	if err != nil {
		o.p.T.Fatal(err)
	}
	info, err := stream.Info(o.p.T.Context(), jetstream.WithSubjectFilter(subjects.RunPlaces("acme", "family")))
	if err != nil {
		o.p.T.Fatal(err)
	}
	return len(info.State.Subjects)
}

// placeLife returns how long the server keeps the message that counts a run.
func (o *office) placeLife(id string) time.Duration {
	o.p.T.Helper()
	stream, err := o.p.JS.Stream(o.p.T.Context(), subjects.RunsStream)
	if err != nil {
		o.p.T.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(o.p.T.Context(), subjects.RunPlace("acme", "family", id))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0
	}
	if err != nil {
		o.p.T.Fatal(err)
	}
	life, err := time.ParseDuration(msg.Header.Get(jetstream.MsgTTLHeader) + "s")
	if err != nil {
		o.p.T.Fatal(err)
	}
	return life
}

// S4: of one root family 1,000 runs may be active, whichever of its tokens started them. One that is closed makes room
// for another.
func TestActiveRunsOfAFamily(t *testing.T) {
	const most = 1000
	o := serve(t)
	var all errgroup.Group
	all.SetLimit(16)
	for n := range most {
		by := agent(nil)
		if n%2 == 0 {
			by = narrowed()
		}
		all.Go(func() error {
			if _, refusal := o.Start(t.Context(), by, envelope.RunStartRequest{ID: fmt.Sprint("r", n)}); refusal != nil {
				return fmt.Errorf("run %d: %s", n, refusal)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	one := func(by runstore.Sender, id string) *envelope.Error {
		_, refusal := o.Start(t.Context(), by, envelope.RunStartRequest{ID: id, Actors: []string{"agent://a"}})
		return refusal
	}
	for _, by := range []runstore.Sender{agent(nil), narrowed()} {
		if refusal := one(by, "more"); codeOf(refusal) != envelope.CodeStoreFull ||
			!strings.Contains(refusal.Message, "1000 runs") || !strings.Contains(refusal.Message, "of 1000") {
			t.Errorf("the 1,001st run: %v", refusal)
		}
	}
	other := agent(func(p *auth.Principal) { p.Family = "other" })
	for what, refusal := range map[string]*envelope.Error{
		"a repeated start": one(agent(nil), "r1"), "an operator": one(operator, "of-operator"),
		"another credential": one(other, "of-other"),
	} {
		if refusal != nil {
			t.Errorf("%s: %v", what, refusal)
		}
	}
	if page, refusal := o.List(t.Context(), envelope.RunListRequest{}); refusal != nil || len(page.Runs) == 0 {
		t.Errorf("a list: %v", refusal)
	}
	closing := envelope.RunChangeRequest{ID: "r7", State: string(policy.RunClosed)}
	if _, refusal := o.Change(t.Context(), agent(nil), closing); refusal != nil {
		t.Fatal(refusal)
	}
	refusal, end := one(agent(nil), "more"), time.Now().Add(20*time.Second)
	for codeOf(refusal) == envelope.CodeStoreFull && time.Now().Before(end) {
		refusal = one(agent(nil), "more")
	}
	if refusal != nil {
		t.Errorf("after one was closed: %v", refusal)
	}
}

// S4: once half of the bucket is in use, a closed run of an agent counts for an hour, and is then forgotten, so that
// nobody fills the bucket by starting and closing.
func TestClosedRunsOfAFamily(t *testing.T) {
	o := serve(t)
	for n := range 20 {
		o.starts(operator, envelope.RunStartRequest{ID: fmt.Sprint("r", n), Actors: []string{"agent://a"}})
	}
	for share, c := range map[int64]struct {
		life   time.Duration
		counts bool
	}{40: {72 * time.Hour, false}, 60: {time.Hour, true}} {
		o.fill(share)
		id := fmt.Sprint("at", share)
		o.starts(agent(nil), envelope.RunStartRequest{ID: id})
		a, refusal := o.Change(t.Context(), agent(nil), envelope.RunChangeRequest{ID: id, State: string(policy.RunClosed)})
		if refusal != nil || a.Run.Expires.Sub(a.Run.End) != c.life {
			t.Errorf("at %d %% it is kept from %s until %s: %v", share, a.Run.End, a.Run.Expires, refusal)
		}
		if life := o.placeLife(id); life > time.Second != c.counts {
			t.Errorf("at %d %% it counts for %s", share, life)
		}
	}
}
