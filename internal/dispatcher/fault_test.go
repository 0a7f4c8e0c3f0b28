package dispatcher_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/calltest"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// logged keeps what w.d logs.
func (w *world) logged() *bytes.Buffer {
	var out bytes.Buffer
	w.d.Logger = slog.New(slog.NewTextHandler(&out, nil))
	return &out
}

// wantFault says that caller n was told of a fault of the dispatcher, on record and in the log with its stack.
func (w *world) wantFault(n int, log *bytes.Buffer) {
	w.t.Helper()
	r := w.outcome(n)
	if r.Error == nil || r.Error.Code != envelope.CodeInternal || r.Provenance.Final ||
		r.Provenance.AuditEventID == "" || r.Check() != nil {
		w.t.Errorf("%d was told %+v", n, r)
	}
	if text := log.String(); !strings.Contains(text, "boom") || !strings.Contains(text, "fault_test.go") {
		w.t.Errorf("logged: %s", text)
	}
}

// panics is a catalog that panics.
type panics struct{ check.Catalog }

func (panics) Get(string, string) (*tool.Manifest, *envelope.Error) { panic("boom") }

// A request that panics whatever looks at it is answered, and takes no dispatcher with it. Its key goes on.
func TestPanic(t *testing.T) {
	for name, panicking := range map[string]func(*world) (mend func()){
		"in a check": func(w *world) func() {
			sound := w.d.Catalog
			w.d.Catalog = panics{}
			return func() { w.d.Catalog = sound }
		},
		"at its admission": func(w *world) func() {
			w.d.Trace.Begin = func(context.Context, call.TraceEvent) (context.Context, string, func(call.TraceEvent)) {
				panic("boom")
			}
			return func() { w.d.Trace.Begin = nil }
		},
		"after its admission": func(w *world) func() {
			w.d.Trace.Event = func(_ context.Context, s call.TraceEvent) {
				if s.At == call.TraceAfterAdmit {
					panic("boom")
				}
			}
			return func() { w.d.Trace.Event = nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Pure, func(t *testing.T, w *world) {
				log := w.logged()
				mend := panicking(w)
				w.ask(1)
				w.wantFault(1, log)
				mend()
				w.ask(2)
				if w.acceptedBy(2) != 1 {
					t.Error("the key is mute")
				}
			})
		})
	}
}

// One that panics in the line harms neither those that wait behind it nor those that join.
func TestPanicInTheLine(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		log := w.logged()
		release := make(chan struct{})
		w.log.Before(func(call.Event) error {
			<-release
			w.log.Before(nil)
			panic("boom")
		})
		go w.d.Handle(t.Context(), w.request(1))
		synctest.Wait()
		for n := 2; n < 5; n++ {
			w.d.Handle(t.Context(), w.request(n))
		}
		close(release)
		pass(time.Second)
		w.wantFault(1, log)
		for n := 2; n < 5; n++ {
			if w.acceptedBy(n) != 1 {
				t.Errorf("%d was accepted %d times", n, w.acceptedBy(n))
			}
		}
	})
}

// Joiners whose join panics are all told.
func TestPanicAtAJoin(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		log := w.logged()
		w.ask(1)
		w.ask(2) // waits here, so that the log is known
		w.log.Before(func(e call.Event) error {
			if e.Kind == call.Joined {
				panic("boom")
			}
			return nil
		})
		go w.d.Handle(t.Context(), w.request(3))
		go w.d.Handle(t.Context(), w.request(4))
		pass(time.Second)
		w.wantFault(3, log)
		w.wantFault(4, log)
		w.log.Before(nil)
		w.ask(5)
		if w.acceptedBy(5) != 1 {
			t.Error("the key is mute")
		}
	})
}

// A panic over a deadline ends nothing: it is tried again. Nor does one over an event that all dispatchers read.
func TestPanicInTheBackground(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.stop()
		tries := 0
		w.step = func(_ context.Context, s call.TraceEvent) {
			if s.At != call.TraceBeforeTimeout {
				return
			}
			if tries++; tries < 2 {
				panic("boom")
			}
		}
		w.run("d2")
		log := w.logged()
		w.ask(1)
		pass(10*time.Second + 500*time.Millisecond)
		if !strings.Contains(log.String(), "boom") {
			t.Fatalf("logged: %s", log)
		}
		pass(time.Second)
		if r := w.outcome(1); r.Error.Code != envelope.CodeTimeout {
			t.Errorf("%+v", r.Error)
		}
		strange := w.state()
		strange.Partition = 7 // there is one
		w.d.Observe(t.Context(), call.Decided, 1, strange)
	})
}

// garbled is a log whose outcomes cannot be read.
type garbled struct{ *calltest.Log }

func (g garbled) Read(ctx context.Context, tool, id string) (call.Entry, error) {
	e, err := g.Log.Read(ctx, tool, id)
	return spoil(e), err
}

func (g garbled) Get(ctx context.Context, at call.Position) (call.Entry, error) {
	e, err := g.Log.Get(ctx, at)
	return spoil(e), err
}

func spoil(e call.Entry) call.Entry {
	if e.Kind == call.Decided {
		e.Body = []byte(`{"response":{"form":9}}x`)
	}
	return e
}

// An outcome that cannot be read makes nobody wait in vain: the callers of its attempt are told how that ended,
// and a further attempt, which would lose it, is refused. None of this is final: another build may be able to read it.
func TestUnreadableOutcome(t *testing.T) {
	bubble(t, call.Idempotent, func(t *testing.T, w *world) {
		w.garbled = true
		w.run("d2")
		log := w.logged()
		w.ask(1)
		w.ask(2)
		w.decide(envelope.CodeUpstream)
		w.ask(1)
		for n := 1; n <= 2; n++ {
			r := w.outcome(n)
			if r.Error.Code != envelope.CodeChecksum || r.Provenance.Final || r.Provenance.Attempt != 1 || r.Check() != nil {
				t.Errorf("%d was told %+v, %+v", n, r.Error, r.Provenance)
			}
			if r.Error.Details.Effect != envelope.EffectNone ||
				!strings.Contains(r.Error.Message, string(envelope.RetryableError)) {
				t.Errorf("%d was told effect %s: %s", n, r.Error.Details.Effect, r.Error.Message)
			}
		}
		w.ask(3)
		if r := w.outcome(3); r.Error.Code != envelope.CodeChecksum || r.Provenance.Final || r.Provenance.Attempt != 0 {
			t.Errorf("a further attempt: %+v, %+v", r.Error, r.Provenance)
		}
		if n := len(w.state().Attempts); n != 1 || !strings.Contains(log.String(), "earlier outcome cannot be read") {
			t.Errorf("%d attempts, logged %s", n, log)
		}
		w.garbled = false // another build
		w.run("d3")
		w.ask(4)
		if w.acceptedBy(4) != 1 {
			t.Error("not accepted where it can be read")
		}
	})
}

// An outcome that cannot be read, which an executor stored under its own name, ends the attempt: every caller is told
// so, finally, also one that asks for a further attempt.
func TestUnreadableOutcomeOfAnExecutor(t *testing.T) {
	for _, class := range []call.EffectClass{call.Idempotent, call.Pure} {
		bubble(t, class, func(t *testing.T, w *world) {
			w.garbled = true
			w.run("d2")
			w.d.Strange = func(string) bool { return true }
			w.ask(1)
			w.ask(2)
			w.decide(envelope.CodeUpstream)
			w.ask(1)
			w.ask(3)
			for n := 1; n <= 3; n++ {
				r := w.outcome(n)
				if r.Error.Code != envelope.CodeToolUnknownState || !r.Provenance.Final || r.Status != envelope.TerminalError ||
					r.Error.Details.Effect != envelope.EffectUnknown || r.Check() != nil {
					t.Errorf("%s: %d was told %+v, %+v", class, n, r.Error, r.Provenance)
				}
			}
			if n := len(w.state().Attempts); n != 1 {
				t.Errorf("%d attempts", n)
			}
		})
	}
}

// An attempt that turns out at its deadline to have ended, with an outcome that cannot be read, is not worked on
// for ever.
func TestUnreadableAtTheDeadline(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.stop()
		w.garbled = true
		w.serve("blind") // it does not follow the log
		w.ask(1)
		w.decide("")
		pass(11 * time.Second)
		if open := w.d.Watching(); open != 0 {
			t.Errorf("%d attempts are watched", open)
		}
	})
}
