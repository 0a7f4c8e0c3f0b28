package dispatcher_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
)

// changes are what may happen while a call waits, and the code with which it must then be refused.
func changes() map[envelope.Code]func(*world, auth.Principal) {
	return map[envelope.Code]func(*world, auth.Principal){
		envelope.CodeRevoked: func(w *world, p auth.Principal) {
			w.d.Tokens.Revoked.Replace(map[string]bool{p.Family: true}, nil)
		},
		envelope.CodeExpired: func(*world, auth.Principal) { pass(2 * time.Second) },
		envelope.CodeLane: func(w *world, _ auth.Principal) {
			w.d.Policy = rules{lanes: "m", tools: "echo", named: true}.in(w)
			w.runs.stored["r"].Pinned = w.d.Policy.(inForce).snapshot.Versions()
		},
		envelope.CodePolicyVersion: func(w *world, _ auth.Principal) {
			w.d.Policy = rules{lanes: "l", tools: "echo", keys: "k"}.in(w)
		},
		envelope.CodeRunState: func(w *world, _ auth.Principal) { w.runs.stored["r"].State = policy.RunClosed },
		envelope.CodeLocked: func(w *world, _ auth.Principal) {
			w.board.Learn([]envelope.Lock{{LockTarget: envelope.LockTarget{Tool: "echo"}, Reason: "r"}}, time.Now())
		},
	}
}

// A call that waits, for whatever, is decided by what holds when it has waited: neither its token nor the policy, its
// run or a lock may have changed for over a second when it is admitted.
func TestChangedWhileItWaited(t *testing.T) {
	edit := inRun("r", "agent", "l")
	waits := map[string]func(w *world, ask func(n int, ref string, edit ...string), change func()){
		"for its input": func(w *world, ask func(int, string, ...string), change func()) {
			w.inFetch = change
			sum := strings.Repeat("c", 64)
			w.payloads[sum] = []byte(`{"n":1}`)
			ask(1, "sha256:"+sum+";7", append(edit, `{"n":1}`, `null`)...)
		},
		"for its run": func(w *world, ask func(int, string, ...string), change func()) {
			w.runs.inFind = change
			ask(1, "", edit...)
		},
		"behind another call": func(w *world, ask func(int, string, ...string), change func()) {
			w.log.Before(func(e call.Event) error {
				if w.log.Before(nil); e.Kind == call.Requested {
					ask(1, "", edit...)
					change()
				}
				return nil
			})
			ask(2, "", edit...)
		},
		"for earlier outcomes": func(w *world, ask func(int, string, ...string), change func()) {
			ask(2, "", edit...)
			w.decide(envelope.CodeToolFault)
			w.log.BeforeRead(func() error { change(); return nil })
			ask(1, "", edit...)
		},
	}
	for wait, begin := range waits {
		for code, change := range changes() {
			t.Run(wait+" "+string(code), func(t *testing.T) {
				bubble(t, call.Idempotent, func(t *testing.T, w *world) {
					w.stop()
					w.board = lock.NewBoard()
					w.run("d2")
					follow(t, w.board)
					w.d.Policy = rules{lanes: "l", tools: "echo", named: true}.in(w)
					s, p := guarded(w), someAgent()
					p.Expires = p.Issued.Add(3 * time.Second)
					w.runs.stored["r"] = &policy.Run{
						Tenant: "t", Actors: []string{"agent"}, State: policy.RunActive,
						Pinned: w.d.Policy.(inForce).snapshot.Versions(),
					}
					ask := func(n int, ref string, edit ...string) {
						in := w.request(n, edit...)
						in.Token, in.Reply, in.InputRef = mint(w, s, p), p.Answers()+uuid(n), ref
						w.d.Handle(t.Context(), in)
					}
					done := false
					begin(w, ask, func() {
						if !done {
							done = true
							pass(2 * time.Second)
							change(w, p)
						}
					})
					synctest.Wait()
					got := w.outcomes[p.Answers()+uuid(1)]
					if !done || len(got) != 1 || got[0].Error == nil || got[0].Error.Code != code {
						t.Errorf("answers %+v, accepted %d times", got, len(w.accepted[p.Answers()+uuid(1)]))
					}
				})
			})
		}
	}
}

// follow renews the knowledge of a board until the test ends.
func follow(t *testing.T, b *lock.Board) {
	done := make(chan struct{})
	b.Learn(nil, time.Now())
	go func() {
		defer close(done)
		for tick := time.NewTicker(200 * time.Millisecond); ; {
			select {
			case <-tick.C:
				if locks, _, err := b.Known(); err == nil {
					b.Learn(locks, time.Now())
				}
			case <-t.Context().Done():
				tick.Stop()
				return
			}
		}
	}()
	t.Cleanup(func() { <-done })
}
