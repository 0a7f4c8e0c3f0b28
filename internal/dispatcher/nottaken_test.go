package dispatcher_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// pool is what is known of the executors of a pool, and what they say.
type pool struct {
	mu        sync.Mutex
	absent    time.Time // since when nobody has lived; zero: not known
	unseen    time.Time // since when nobody was seen; zero: not known
	delivered uint64
	silent    bool // the server does not answer
	steps     int  // see admission.Pools
	runner    string
	since     time.Time
}

func (p *pool) set(change func(*pool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *pool) AbsentSince(string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.absent
}

func (p *pool) Steps(string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.steps
}

func (p *pool) WasAbsentAt(_ context.Context, _ string, at time.Time) bool {
	since := p.AbsentSince("")
	return !since.IsZero() && since.Before(at)
}

func (p *pool) SawNone(_ context.Context, _ string, since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.unseen.IsZero() && p.unseen.Before(since)
}

func (p *pool) Delivered(ctx context.Context, at call.Position, _, _ string) (bool, error) {
	p.mu.Lock()
	silent, delivered := p.silent, p.delivered
	p.mu.Unlock()
	if silent {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return at.Seq <= delivered, nil
}

func (p *pool) Locate(context.Context, string, string, int) (string, time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runner, p.since, p.runner != ""
}

// staffed lets a dispatcher run that knows of a pool.
func staffed(t *testing.T, class call.EffectClass, f func(*testing.T, *world, *pool)) {
	t.Helper()
	bubble(t, class, func(t *testing.T, w *world) {
		w.stop()
		p := &pool{}
		w.evidence, w.finds = p, p
		w.run("d2")
		f(t, w, p)
	})
}

// At its deadline a call that certainly nobody took says so, with the name of its pool; and where that is not certain,
// it does not.
func TestUntakenAtItsDeadline(t *testing.T) {
	const none, unknown = envelope.EffectNone, envelope.EffectUnknown
	const unserved, late = envelope.CodeUnavailable, envelope.CodeTimeout
	handedOut := func(p *pool) { p.delivered = 9 }
	unseen := func(d time.Duration) func(*pool) { return func(p *pool) { p.unseen = time.Now().Add(d) } }
	absent := func(d time.Duration) func(*pool) { return func(p *pool) { p.absent = time.Now().Add(d) } }
	for name, c := range map[string]struct {
		class  call.EffectClass
		pool   func(*pool)
		code   envelope.Code
		effect envelope.Effect
	}{
		"pure, not handed out":              {call.Pure, func(*pool) {}, unserved, none},
		"pure, handed out":                  {call.Pure, handedOut, late, none},
		"pure, the server does not answer":  {call.Pure, func(p *pool) { p.silent = true }, late, none},
		"idempotent, not handed out":        {call.Idempotent, func(*pool) {}, late, unknown},
		"idempotent, nobody there":          {call.Idempotent, absent(-time.Second), unserved, none},
		"idempotent, somebody was there":    {call.Idempotent, absent(time.Second), late, unknown},
		"idempotent, nobody was ever seen":  {call.Idempotent, unseen(-time.Second), unserved, none},
		"idempotent, nobody was seen later": {call.Idempotent, unseen(time.Second), late, unknown},
		"idempotent, unseen, but handed out": {call.Idempotent, func(p *pool) {
			unseen(-time.Second)(p)
			handedOut(p)
		}, late, unknown},
		"side-effectful, whatever else happens": {call.SideEffectful, handedOut, unserved, none},
	} {
		t.Run(name, func(t *testing.T) {
			staffed(t, c.class, func(t *testing.T, w *world, p *pool) {
				p.set(c.pool)
				w.askFor(1, 5*time.Second)
				pass(5*time.Second + 50*time.Millisecond)
				r := w.outcome(1)
				if r.Error.Code != c.code || r.Error.Details.Effect != c.effect || r.Status != envelope.RetryableError {
					t.Errorf("%+v", r.Error)
				}
				named := strings.Contains(r.Error.Message+r.Error.Fix, "no executor of pool default")
				if named != (c.code == envelope.CodeUnavailable) {
					t.Errorf("%s; %s", r.Error.Message, r.Error.Fix)
				}
				if d := w.state().Last().Decision; d.NotTaken != (c.code == envelope.CodeUnavailable) || d.By != call.ByDeadline {
					t.Errorf("%+v", d)
				}
			})
		})
	}
}

// What the server stores after its deadline uses up nothing of its key, of whatever class the tool is.
func TestStoredAfterItsDeadline(t *testing.T) {
	for _, class := range []call.EffectClass{call.Pure, call.Idempotent, call.SideEffectful} {
		bubble(t, class, func(t *testing.T, w *world) {
			w.log.Before(func(e call.Event) error {
				if e.Kind == call.Requested && e.State.Seq == w.state().Seq { // it is not refused at once
					pass(11 * time.Second)
				}
				return nil
			})
			for n := range call.MaxAttempts + 1 {
				w.ask(n)
				pass(time.Second)
				if r := w.outcome(n); r.Error.Code != envelope.CodeTimeout || r.Error.Details.Effect != envelope.EffectNone {
					t.Fatalf("%s, %d was told %+v", class, n, r.Error)
				}
				if a := w.state().Last(); a.N != n+1 || !a.Decision.NotTaken {
					t.Fatalf("%s, attempt %d: %+v", class, n+1, a)
				}
			}
			w.log.Before(nil)
			w.ask(50)
			if w.acceptedBy(50) != 1 {
				t.Errorf("%s: the key is used up", class)
			}
		})
	}
}

// Where nobody of its pool has lived for long enough, a call is ended before its deadline, unless somebody may have
// taken it.
func TestDeserted(t *testing.T) {
	for name, c := range map[string]struct {
		class call.EffectClass
		gone  time.Duration // how long before the call was asked for, if positive
		claim bool
		early bool
	}{
		"pure":                              {call.Pure, time.Second, false, true},
		"pure, its executor has died":       {call.Pure, -time.Second, false, true},
		"idempotent":                        {call.Idempotent, time.Second, false, true},
		"idempotent, it may have run":       {call.Idempotent, -time.Second, false, false},
		"side-effectful":                    {call.SideEffectful, time.Second, false, true},
		"side-effectful, in the queue":      {call.SideEffectful, -time.Second, false, true},
		"side-effectful, and it is claimed": {call.SideEffectful, -time.Second, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			staffed(t, c.class, func(t *testing.T, w *world, p *pool) {
				since := time.Now().Add(-c.gone)
				w.askFor(1, time.Minute)
				if c.claim {
					w.claim()
				}
				p.set(func(p *pool) { p.absent, p.delivered = since, 9 })
				pass(time.Until(since.Add(9900 * time.Millisecond)))
				if w.answers() != 0 {
					t.Fatalf("ended too early: %+v", w.outcome(1).Error)
				}
				pass(500 * time.Millisecond)
				if w.answers() != 0 != c.early {
					t.Fatalf("%d answers", w.answers())
				}
				if !c.early {
					return
				}
				r, d := w.outcome(1), w.state().Last().Decision
				e := r.Error
				if e.Code != envelope.CodeUnavailable || e.Details.Effect != envelope.EffectNone || d.By != call.ByDispatcher {
					t.Errorf("%+v by %s", e, d.By)
				}
				if !strings.Contains(e.Message, "no executor of pool default is alive") ||
					!strings.Contains(e.Fix, "--pool default") {
					t.Errorf("%s; %s", e.Message, e.Fix)
				}
			})
		})
	}
}

// A restart of the executors that is shorter than the setting ends nothing; and what is asked for while nobody has
// lived for long is admitted, and then ended soon.
func TestAbsenceIsRiddenOut(t *testing.T) {
	staffed(t, call.SideEffectful, func(t *testing.T, w *world, p *pool) {
		w.askFor(1, time.Minute)
		p.set(func(p *pool) { p.absent = time.Now() })
		pass(9 * time.Second)
		p.set(func(p *pool) { p.absent = time.Time{} })
		pass(9 * time.Second)
		if w.answers() != 0 || w.d.Deadlines.Waiting()["default"] != 1 {
			t.Fatalf("%d answers, waiting: %v", w.answers(), w.d.Deadlines.Waiting())
		}
		p.set(func(p *pool) { p.absent = time.Now().Add(-time.Minute) })
		pass(time.Second)
		w.outcome(1)
		w.askFor(2, time.Minute)
		if w.acceptedBy(2) != 1 {
			t.Fatal("not admitted")
		}
		pass(time.Second)
		r := w.outcome(2)
		if r.Error.Code != envelope.CodeUnavailable || r.Provenance.Attempt != 2 || len(w.d.Deadlines.Waiting()) != 0 {
			t.Errorf("%+v, waiting: %v", r.Error, w.d.Deadlines.Waiting())
		}
	})
}

// A log that cannot be written keeps a deserted call waiting, and no longer.
func TestDesertedIsTriedAgain(t *testing.T) {
	staffed(t, call.Pure, func(t *testing.T, w *world, p *pool) {
		w.askFor(1, time.Minute)
		p.set(func(p *pool) { p.absent = time.Now().Add(-time.Minute) })
		w.log.Before(func(call.Event) error { return call.ErrFull })
		pass(time.Second)
		w.log.Before(nil)
		pass(time.Second)
		if r := w.outcome(1); r.Error.Code != envelope.CodeUnavailable {
			t.Errorf("%+v", r.Error)
		}
	})
}

// Why tells what waits from what runs, of every class. It says the limits of the tool while the call is open.
func TestWhyAsksExecutors(t *testing.T) {
	staffed(t, call.Idempotent, func(t *testing.T, w *world, p *pool) {
		w.ask(1)
		for _, c := range []struct {
			alive  int
			runner string
			want   string
		}{
			{3, "", "waits in the queue of pool default (3 executors alive)"},
			{1, "", "(1 executor alive) with normal priority, until an executor has a free slot and runs fewer calls"},
			{0, "", "but no executor of pool default is alive"},
			{3, "default/e7", "runs at executor default/e7 since "},
		} {
			w.executors = c.alive
			p.set(func(p *pool) { p.runner, p.since = c.runner, time.Now() })
			if why, _ := w.d.Why(t.Context(), from("agent"), w.query(1)); !strings.Contains(why.Sentence, c.want) {
				t.Errorf("%s: want %s", why, c.want)
			}
		}
		why := func() string {
			t.Helper()
			why, _ := w.d.Why(t.Context(), from("agent"), w.query(1))
			return why.Sentence
		}
		const limits = " until its deadline. The tool runs at most 8 calls at once in an executor (concurrency_max), and " +
			"gives a call at most 1m (timeout_ms_max)."
		if says := why(); !strings.Contains(says, "/e7 since ") || !strings.Contains(says, limits) {
			t.Error(says)
		}
		w.manifest.Limits.Concurrency = 1
		if says := why(); !strings.Contains(says, " at most 1 call at once ") {
			t.Error(says)
		}
		w.claim()
		if says := why(); !strings.Contains(says, "claimed by executor default/e1") || !strings.Contains(says, " 1m (") {
			t.Error(says)
		}
		w.decide("")
		if says := why(); strings.Contains(says, "concurrency_max") {
			t.Errorf("after its end: %s", says)
		}
	})
}

// askFor is ask with a timeout.
func (w *world) askFor(n int, timeout time.Duration) {
	due := func(d time.Duration) string {
		return fmt.Sprintf(`"deadline_unix_ms":%d`, time.Now().Add(d).UnixMilli())
	}
	w.ask(n, `"timeout_ms":10000`, fmt.Sprintf(`"timeout_ms":%d`, timeout.Milliseconds()),
		due(10*time.Second), due(timeout))
}

var _ poolEvidence = (*pool)(nil)
