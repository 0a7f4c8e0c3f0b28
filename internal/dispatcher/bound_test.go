package dispatcher_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// ofRun0 is what the owner of the call of these tests says of it.
var ofRun0 = []string{`"timezone"`, `"run_id":"r0","lane_id":"l0","scopes":["say"],"timezone"`}

// askWith makes a request with a token of p, which is answered where p is.
func (w *world) askWith(s *auth.Signer, p auth.Principal, n int, edit ...string) {
	in := w.request(n, edit...)
	in.Token, in.Reply = mint(w, s, p), p.Answers()+fmt.Sprint("inbox", n)
	w.d.Handle(w.t.Context(), in)
	synctest.Wait()
}

// toldCodes returns the codes with which a reply subject was answered, "" for a success.
func (w *world) toldCodes(p auth.Principal, n int) (codes []envelope.Code) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.outcomes[p.Answers()+fmt.Sprint("inbox", n)] {
		if r.Error == nil {
			codes = append(codes, "")
		} else {
			codes = append(codes, r.Error.Code)
		}
	}
	return codes
}

// bindings are tokens of the actor, and whether they cover a call of run r0, lane l0, with the scopes say and write.
func bindings() map[string]struct {
	change func(*auth.Principal)
	covers bool
} {
	narrowed := func(p *auth.Principal) { p.Chain, p.Origin = []string{"parent"}, auth.Agent }
	return map[string]struct {
		change func(*auth.Principal)
		covers bool
	}{
		"not bound":        {func(p *auth.Principal) { p.Scopes = []string{"*"} }, true},
		"no scopes":        {func(p *auth.Principal) { p.Scopes = nil }, true},
		"its scopes":       {func(*auth.Principal) {}, true},
		"its run and lane": {func(p *auth.Principal) { p.Run, p.Lane = "r0", "l0" }, true},
		"another run":      {func(p *auth.Principal) { p.Run = "r1" }, false},
		"another run, all": {func(p *auth.Principal) { p.Run, p.Scopes = "r1", []string{"*"} }, false},
		"another lane":     {func(p *auth.Principal) { p.Lane = "l1" }, false},
		"without write":    {func(p *auth.Principal) { p.Scopes = []string{"say"} }, false},
		"without say":      {func(p *auth.Principal) { p.Scopes = []string{"write", "admin"} }, false},
		"narrowed":         {narrowed, true},
		"narrowed to none": {func(p *auth.Principal) { narrowed(p); p.Scopes = nil }, false},
	}
}

// A bound token reads and cancels only calls that it covers: others are ones that there are not.
func TestBoundTokens(t *testing.T) {
	for name, test := range bindings() {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Pure, func(t *testing.T, w *world) {
				s, owner, p := guarded(w), someAgent(), someAgent()
				w.manifest.Security.RequiredScopes = []string{"write"}
				test.change(&p)
				w.begin("r0")
				w.askWith(s, owner, 1, ofRun0...)
				ctx := auth.NewContext(t.Context(), &p)
				for _, q := range []envelope.CallRef{w.query(1), {Ref: w.query(1).Ref}} {
					w.maySee(ctx, t, q, test.covers)
				}
				if _, refusal := w.d.Cancel(ctx, from("agent"), w.query(1)); (refusal == nil) != test.covers {
					t.Errorf("cancel: %v", refusal)
				}
				if open := w.state().Last().Open(); open == test.covers {
					t.Errorf("the call is open: %t", open)
				}
			})
		})
	}
}

// maySee checks all that tells of a call but its cancel.
func (w *world) maySee(ctx context.Context, t *testing.T, q envelope.CallRef, may bool) {
	t.Helper()
	_, result := w.d.Result(ctx, from("agent"), q)
	_, why := w.d.Why(ctx, from("agent"), q)
	_, chunks := w.d.StateOf(ctx, from("agent"), q, 1)
	for what, refusal := range map[string]*envelope.Error{"result": result, "why": why, "chunks": chunks} {
		if (refusal == nil) != may || refusal != nil && refusal.Code != envelope.CodeNotFound {
			t.Errorf("%s with %q: %v", what, q.CallID, refusal)
		}
	}
}

// A bound token does not join a call that it does not cover, nor is it told the outcome, whatever key or call id it
// sends. After an outcome that may be retried it opens an attempt of its own, which the other token does not cover.
func TestBoundTokensShareNoKey(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		s, owner, p := guarded(w), someAgent(), someAgent()
		owner.Run, p.Run = "r0", "r1"
		ofRun1 := []string{`"timezone"`, `"run_id":"r1","timezone"`}
		ofRun0 := []string{`"timezone"`, `"run_id":"r0","timezone"`}
		w.begin("r0", "r1")
		w.askWith(s, owner, 1, ofRun0...)
		w.askWith(s, p, 2, ofRun1...)
		w.askWith(s, p, 1, ofRun1...) // under the owner's call id
		pass(time.Second)
		w.decide(envelope.CodeUpstream)
		w.askWith(s, p, 1, ofRun1...)
		for n, want := range map[int]int{1: 2, 2: 1} {
			got := w.toldCodes(p, n)
			for _, code := range got {
				if code != envelope.CodeScope {
					t.Errorf("call id %d is told %q", n, got)
				}
			}
			if len(got) != want {
				t.Errorf("call id %d is told %q", n, got)
			}
		}
		w.askWith(s, p, 3, ofRun1...)
		if last := w.state().Last(); last.N != 2 || last.Owner.Run != "r1" {
			t.Errorf("the last attempt is %+v", last)
		}
		w.askWith(s, owner, 4, ofRun0...)
		if got := w.toldCodes(owner, 4); len(got) != 1 || got[0] != envelope.CodeScope {
			t.Errorf("the owner of the first attempt is told %q of the second", got)
		}
		ctx := auth.NewContext(t.Context(), &owner)
		w.maySee(ctx, t, w.query(1), true)
		if _, refusal := w.d.Result(ctx, from("agent"), envelope.CallRef{Ref: w.query(1).Ref,
			CallID: uuid(3)}); refusal == nil {
			t.Error("the owner of the first attempt reads the second")
		}
		if _, refusal := w.d.StateOf(ctx, from("agent"), w.query(1), 2); refusal == nil {
			t.Error("the owner of the first attempt reads the chunks of the second")
		}
	})
}

// Of an attempt that an earlier build admitted nobody knows the scopes: only a token with all scopes covers it.
func TestAttemptsOfUnknownScopes(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.begin("r0")
		w.ask(1, `"timezone"`, `"run_id":"r0","timezone"`) // without tokens, so without scopes
		for _, test := range []struct {
			run, scopes string
			covers      bool
		}{{"", "", true}, {"r0", "", false}, {"r0", "*", true}, {"r1", "*", false}, {"", "say", false}} {
			p := someAgent()
			p.Run, p.Scopes = test.run, strings.Fields(test.scopes)
			_, refusal := w.d.Result(auth.NewContext(t.Context(), &p), from("agent"), w.query(1))
			if (refusal == nil) != test.covers {
				t.Errorf("run %q, scopes %q: %v", test.run, test.scopes, refusal)
			}
		}
	})
}

// A bound token is answered only where it may hear.
func TestWhereBoundTokensAreAnswered(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		s, p, free := guarded(w), someAgent(), someAgent()
		free.Scopes = []string{"*"}
		for reply, may := range map[string]bool{
			p.Answers() + "word": true, free.Answers() + "word": false, free.Answers() + p.Family: false,
			free.Answers() + p.Family + "x.word": false,
		} {
			before := len(w.refusals())
			in := w.request(1)
			in.Token, in.Reply = mint(w, s, p), reply
			w.d.Handle(t.Context(), in)
			synctest.Wait()
			_, refusal := w.d.Authenticate(t.Context(), "result", from("agent"),
				call.Credential{Token: in.Token, User: p.User(), Reply: reply})
			want := 0
			if !may {
				want = 2
			}
			if got := w.refusals()[before:]; len(got) != want || (refusal == nil) != may ||
				refusal != nil && (refusal.Code != envelope.CodeIdentity || got[0] != envelope.CodeIdentity) {
				t.Errorf("%s: %v, %v", reply, got, refusal)
			}
		}
	})
}
