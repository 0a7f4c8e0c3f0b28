package dispatcher_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

const buildA, buildB = "sha256:aaaaaaaaaaaaaaaaaaaa", "sha256:bbbbbbbbbbbbbbbbbbbb"

var errDown = errors.New("no server")

// hosts are the executors of pool default, as their heartbeats say.
type hosts struct {
	mu    sync.Mutex
	lack  bool  // all that were heard do not have build A of echo
	sure  bool  // true: no live executor has the build
	fails error // why heartbeats are not read
	reads int
}

func (h *hosts) set(change func(*hosts)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

func (h *hosts) Lacking(pool, tool, build string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lack && pool == "default" && tool == "echo" && build == buildA
}

func (h *hosts) NoneHas(context.Context, string, string, string) ([]string, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads++
	return []string{"", buildB}, h.sure, h.fails
}

// mixedBuilds lets a dispatcher with build A of the tool run, which knows of a pool and what its executors have.
func mixedBuilds(t *testing.T, class call.EffectClass, f func(*testing.T, *world, *pool, *hosts)) {
	t.Helper()
	bubble(t, class, func(t *testing.T, w *world) {
		w.stop()
		p, h := &pool{}, &hosts{}
		w.manifest.Digest = buildA
		w.evidence, w.builds = p, h
		w.run("d2")
		f(t, w, p, h)
	})
}

// A call that was admitted for a build that no live executor has ends before its deadline, with the effect that the log
// proves.
func TestBuildAbsent(t *testing.T) {
	const none, unknown = envelope.EffectNone, envelope.EffectUnknown
	const unserved, unsure = envelope.CodeUnavailable, envelope.CodeToolUnknownState
	for name, c := range map[string]struct {
		class      call.EffectClass
		claim      bool
		absent     bool // the pool was, when the call was stored
		code       envelope.Code
		effect     envelope.Effect
		notStarted bool
	}{
		"pure":                            {call.Pure, false, false, unserved, none, false},
		"pure, claimed":                   {call.Pure, true, false, unserved, none, false},
		"idempotent, it may have run":     {call.Idempotent, false, false, unserved, unknown, false},
		"idempotent, older than its pool": {call.Idempotent, false, true, unserved, none, true},
		"idempotent, claimed":             {call.Idempotent, true, false, unserved, unknown, false},
		"side-effectful":                  {call.SideEffectful, false, false, unserved, none, true},
		"side-effectful, claimed":         {call.SideEffectful, true, false, unsure, unknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			mixedBuilds(t, c.class, func(t *testing.T, w *world, p *pool, h *hosts) {
				p.set(func(p *pool) { p.delivered = 9 })
				w.askFor(1, time.Minute)
				if c.claim {
					w.claim()
				}
				pass(time.Second)
				if w.answers() != 0 {
					t.Fatalf("ended too early: %+v", w.outcome(1).Error)
				}
				if c.absent {
					p.set(func(p *pool) { p.absent = w.state().Last().At.Time().Add(-time.Second) })
				}
				h.set(func(h *hosts) { h.lack, h.sure = true, true })
				pass(500 * time.Millisecond)
				r, d := w.outcome(1), w.state().Last().Decision
				e := r.Error
				if e.Code != c.code || e.Details.Effect != c.effect || d.By != call.ByDispatcher || !d.BuildAbsent ||
					r.Status != c.code.Status() {
					t.Errorf("%s: %+v by %+v", r.Status, e, d)
				}
				if r.Provenance.NotStarted != c.notStarted {
					t.Errorf("not started: %t", r.Provenance.NotStarted)
				}
				says := e.Message + e.Cause
				if !strings.Contains(says, "no live executor of pool default has the admitted build of echo 1.2.3, "+buildA[:19]) {
					t.Error(says)
				}
				if !strings.Contains(says, "they have no build, sha256:bbbbbbbbbbbb") {
					t.Error(says)
				}
				fix := "if the effect is none, call with a new key"
				if c.code == unsure {
					fix = "find out whether the effect took place before calling again with a new key"
				}
				if !strings.Contains(e.Fix, fix) ||
					strings.Contains(says, "no lookup was asked, because no live executor") != (c.code == unsure) {
					t.Errorf("%s; %s", says, e.Fix)
				}
				why, _ := w.d.Why(t.Context(), from("agent"), w.query(1))
				if !strings.Contains(why.Sentence, "no live executor of pool default has the admitted build") {
					t.Error(why.Sentence)
				}
			})
		})
	}
}

// A call goes on while a live executor may have its build: one that was not heard, one that is not certain, and one of
// another build of the call.
func TestBuildPresent(t *testing.T) {
	certain := func(h *hosts) { h.lack, h.sure = true, true }
	for name, c := range map[string]struct {
		change func(*world, *hosts)
		reads  bool
	}{
		"one says nothing":          {change: func(_ *world, h *hosts) { h.sure = true }},
		"one was not heard":         {change: func(_ *world, h *hosts) { h.lack = true }, reads: true},
		"heartbeats cannot be read": {change: func(_ *world, h *hosts) { h.lack, h.fails = true, errDown }, reads: true},
		"admitted for another":      {change: func(w *world, h *hosts) { certain(h); w.manifest.Digest = buildB }},
		"of another pool":           {change: func(w *world, h *hosts) { certain(h); w.manifest.Pool = "gpu" }},
	} {
		t.Run(name, func(t *testing.T) {
			mixedBuilds(t, call.SideEffectful, func(t *testing.T, w *world, _ *pool, h *hosts) {
				h.set(func(h *hosts) { c.change(w, h) })
				w.askFor(1, 5*time.Second)
				pass(4 * time.Second)
				if w.answers() != 0 {
					t.Errorf("ended: %+v", w.outcome(1).Error)
				}
				if read := h.reads > 0; read != c.reads {
					t.Errorf("heartbeats were read %d times", h.reads)
				}
			})
		})
	}
}

// A log that cannot be written keeps the call waiting, and no longer. An attempt that is over is not watched any more.
func TestBuildAbsentIsTriedAgain(t *testing.T) {
	mixedBuilds(t, call.Pure, func(t *testing.T, w *world, _ *pool, h *hosts) {
		h.set(func(h *hosts) { h.lack, h.sure = true, true })
		w.log.Before(func(e call.Event) error {
			if e.Kind == call.Decided {
				return call.ErrFull
			}
			return nil
		})
		w.askFor(1, time.Minute)
		pass(3 * time.Second)
		if w.answers() != 0 {
			t.Fatalf("%+v", w.outcome(1))
		}
		w.log.Before(nil)
		pass(time.Second)
		if r := w.outcome(1); r.Error.Code != envelope.CodeUnavailable {
			t.Errorf("%+v", r.Error)
		}
		reads := h.reads
		pass(5 * time.Second)
		if h.reads != reads {
			t.Errorf("heartbeats are read for a call that has ended: %d, then %d times", reads, h.reads)
		}
	})
}
