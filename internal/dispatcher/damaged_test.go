package dispatcher_test

import (
	"testing"
	"testing/synctest"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// A dispatcher admits no request for a call whose log is damaged, joins none, and lets none wait. It answers each with
// the effect unknown, and not final, since an operator may repair the log.
func TestDamagedLog(t *testing.T) {
	damage := &call.DamagedError{Ref: "echo.id"}
	for name, c := range map[string]struct{ before, after int }{
		"a new key":                   {0, 1},
		"a joiner":                    {1, 2},
		"a caller that asks again":    {1, 1},
		"a request that is refused":   {1, 3},
		"a caller of a decided call":  {4, 5},
		"a request after its attempt": {4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Idempotent, func(t *testing.T, w *world) {
				if c.before > 0 {
					w.ask(c.before)
				}
				if c.before == 4 {
					w.decide("")
					w.mu.Lock()
					clear(w.outcomes)
					w.mu.Unlock()
				}
				w.broken = damage
				edit := []string{}
				if c.after == 3 {
					edit = []string{`"n":1`, `"n":2`}
				}
				w.ask(c.after, edit...)
				synctest.Wait()
				r := w.outcome(c.after)
				if r.Error == nil || r.Error.Code != envelope.CodeLogDamaged || r.Provenance.Final ||
					r.Error.Details.Effect != envelope.EffectUnknown {
					t.Errorf("told %+v, %+v", r.Error, r.Provenance)
				}
			})
		})
	}
}
