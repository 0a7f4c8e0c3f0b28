package dispatcher_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// The server answers reads and acknowledges no write, as after a full disk. Before their deadline callers get the
// reason and the effect, without a record. Once writes are acknowledged, calls are admitted.
func TestServerStoresNothing(t *testing.T) {
	for class, effect := range map[call.EffectClass]envelope.Effect{
		call.Pure: envelope.EffectNone, call.SideEffectful: envelope.EffectUnknown,
	} {
		bubble(t, class, func(t *testing.T, w *world) {
			w.unstored = time.Minute
			w.log.Before(func(e call.Event) error { // as kv.Log
				<-time.After(time.Until(e.Until))
				return fmt.Errorf("%w: %w", call.ErrUnsure, context.DeadlineExceeded)
			})
			if missing := w.d.Stopped(); !strings.Contains(missing, "stores nothing") {
				t.Errorf("missing for admission: %q", missing)
			}
			w.ask(1)
			pass(2 * time.Second)
			r := w.outcome(1)
			if r.Error.Code != envelope.CodeStoreFull || r.Error.Details.Effect != effect || r.Error.Fix == "" ||
				r.Provenance.Final || r.Provenance.NotStarted || r.Provenance.AuditEventID != "" || r.Check() != nil {
				t.Errorf("%s: %+v, %+v", class, r.Error, r.Provenance)
			}
			w.ask(2, `"fn":"say"`, `"fn":"sing"`)
			pass(time.Second)
			if r := w.outcome(2); r.Error.Code != envelope.CodeStoreFull || r.Error.Details.Effect != envelope.EffectNone ||
				r.Provenance.Final {
				t.Errorf("%s, refused for another reason: %+v, %+v", class, r.Error, r.Provenance)
			}
			w.log.Before(nil)
			w.unstored = 0
			w.ask(3)
			if w.acceptedBy(3) != 1 {
				t.Errorf("%s: not admitted", class)
			}
			for want, is := range map[string]func(){
				"": func() {}, "room in the call log": func() { w.full = true },
				"the audit record, which is behind the call log": func() { w.full, w.lag = false, time.Minute },
			} {
				if is(); w.d.Stopped() != want {
					t.Errorf("missing for admission: %q, want %q", w.d.Stopped(), want)
				}
				w.full, w.lag = false, 0
			}
		})
	}
}
