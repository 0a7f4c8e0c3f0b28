package executor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor"
)

// large is the message of a call whose input lies in the payload store.
func large(m executor.Message) executor.Message {
	ref := envelope.PayloadRef{SHA256: strings.Repeat("b", 64), Bytes: 1}
	m.Entry.Body = []byte(strings.TrimSuffix(string(m.Entry.Body), "}") + `,"input_ref":"` + ref.String() + `"}`)
	return m
}

// damaged is the error of a payload that is not what its reference names.
type damaged struct{}

func (damaged) Error() string          { return "damaged" }
func (damaged) Fault() *envelope.Error { return envelope.NewError(envelope.CodeChecksum, "") }

func TestLargeInput(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(w *world)
		want    envelope.Code
	}{
		"missing":          {func(*world) {}, envelope.CodeInputMissing},
		"damaged":          {func(w *world) { w.broken = damaged{} }, envelope.CodeChecksum},
		"not read in time": {func(w *world) { w.silent = true }, envelope.CodeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				m := large(w.admit(callA, time.Minute))
				c.prepare(w)
				w.ex.Handle(t.Context(), m)
				if d := w.decided(1); d.Code != c.want || d.Effect != envelope.EffectNone || len(w.runs) != 0 {
					t.Errorf("%d runs, decision %+v", len(w.runs), d)
				}
				w.wantAcked(m, true)
			})
		})
	}
}

// A cancel ends the wait for a large input.
func TestKilledBeforeItsInputIsIn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := large(w.admit(callA, time.Minute))
		w.silent = true
		before := time.Now()
		go w.killLater() // ends before Handle does
		w.ex.Handle(t.Context(), m)
		if took := time.Since(before); took > 2*time.Second || len(w.runs) != 0 || w.decided(1).By != call.ByCanceller {
			t.Errorf("%d runs, decision %+v after %s", len(w.runs), w.decided(1), took)
		}
		w.wantAcked(m, true)
	})
}

// Whoever observes runs is told how each ends, also where its tool could not be started.
func TestObservedAlsoWhenItCannotStart(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(w *world, stop func())
		want    envelope.Code
	}{
		"ended":      {func(w *world, _ func()) { w.payloads[strings.Repeat("b", 64)] = []byte(`{"n":1}`) }, ""},
		"no input":   {func(*world, func()) {}, envelope.CodeInputMissing},
		"no adapter": {func(w *world, _ func()) { clear(w.ex.Adapters) }, envelope.CodeUnavailable},
		"drained": {func(w *world, stop func()) {
			w.silent = true
			go func() { pass(time.Second); stop() }()
		}, envelope.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				var ends []call.TraceEvent
				w.ex.Trace.Begin = func(ctx context.Context, _ call.TraceEvent) (context.Context, string,
					func(call.TraceEvent)) {
					return ctx, "", func(last call.TraceEvent) { ends = append(ends, last) }
				}
				ctx, stop := context.WithCancel(t.Context())
				c.prepare(w, stop)
				w.ex.Handle(ctx, large(w.admit(callA, time.Minute)))
				if len(ends) != 1 || (ends[0].Error == nil) != (c.want == "") || c.want != "" && ends[0].Error.Code != c.want {
					t.Errorf("told of the ends %+v", ends)
				}
			})
		})
	}
}

// killLater ends the attempt while its executor waits.
func (w *world) killLater() {
	pass(time.Second)
	w.cancel()
	w.ex.Kill("id1", 1, time.Now().Add(time.Minute))
}

// An executor that shuts down while it waits for an input hands the call back. A claim it could not
// take back, so it says that nothing ran.
func TestDrainBeforeStart(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.silent = true
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		m := large(w.admit(callA, time.Minute))
		w.ex.Handle(ctx, m)
		claims := w.manifest.Class == call.SideEffectful
		w.wantAcked(m, claims)
		if !claims {
			if !w.state().Last().Open() {
				t.Error("decided by an executor that shut down")
			}
			return
		}
		if d := w.decided(1); d.Code != envelope.CodeUnavailable || d.Effect != envelope.EffectNone {
			t.Errorf("decision %+v", d)
		}
	})
}

// weighing is the message of a call with an input of so many bytes.
func weighing(m executor.Message, bytes int64) executor.Message {
	ref := envelope.PayloadRef{SHA256: strings.Repeat("b", 64), Bytes: bytes}
	m.Entry.Body = []byte(strings.TrimSuffix(string(m.Entry.Body), "}") + `,"input_ref":"` + ref.String() + `"}`)
	return m
}

// A large input that never fits is refused at once, and no tool is started.
func TestInputBeyondMemory(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ex.Options.PayloadMemory = 18 << 20
		w.ex = executor.New(w.ex.Options)
		m := weighing(w.admit(callA, time.Minute), 10<<20)
		w.ex.Handle(t.Context(), m)
		d := w.decided(1)
		if d.Code != envelope.CodeLimit || d.Effect != envelope.EffectNone || len(w.runs) != 0 {
			t.Errorf("%d runs, decision %+v", len(w.runs), d)
		}
	})
}
