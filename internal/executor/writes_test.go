package executor_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// A run that reports a write outside the write targets of its call ends with an error of its own, whatever the tool
// said. The decision names what was written, if the tool has write targets.
func TestWriteTargets(t *testing.T) {
	const inside, outside = `{"kind":"file.write","target":"file:/srv/out/a","bytes":7}`,
		`{"kind":"file.write","target":"file:/etc/passwd"}`
	only := []string{"file:/srv/out/", "db:orders"}
	for name, c := range map[string]struct {
		targets []string
		effects []string
		fails   bool // the tool
		dry     bool
		code    envelope.Code
		writes  string
	}{
		"inside": {only, []string{inside}, false, false, "", "[" + inside + "]"},
		"one is outside": {only, []string{inside, outside}, false, false, envelope.CodeWriteTarget,
			"[" + inside + "," + outside + "]"},
		"every target": {nil, []string{outside}, false, false, "", "[" + outside + "]"},
		"climbs": {only, []string{`{"target":"file:/srv/out/../../etc/passwd"}`}, false, false, envelope.CodeWriteTarget,
			`[{"target":"file:/srv/out/../../etc/passwd"}]`},
		"no target":  {only, []string{`{"kind":"x"}`}, false, false, envelope.CodeWriteTarget, `[{"kind":"x"}]`},
		"odd target": {only, []string{`{"target":7,"bytes":-1}`}, false, false, envelope.CodeWriteTarget, `[{}]`},
		"of a failure that could be retried": {only, []string{outside}, true, false, envelope.CodeWriteTarget,
			"[" + outside + "]"},
		"dry run":      {only, []string{inside}, false, true, "", ""},
		"dry, outside": {only, []string{outside}, false, true, envelope.CodeWriteTarget, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, call.Idempotent)
				w.writeTargets, w.writes, w.dryRun = c.targets, true, c.dry
				w.manifest.Capability.DryRun = true
				w.execute = func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
					r := tool.Result{Output: jsontext.Value(`{}`)}
					for _, effect := range c.effects {
						r.SideEffects = append(r.SideEffects, jsontext.Value(effect))
					}
					if c.fails {
						return r, &tool.Error{Code: "x", Effect: envelope.EffectNone}
					}
					return r, nil
				}
				w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
				d := w.decided(1)
				if d.Code != c.code || d.Writes != c.writes || d.WritesLeft != 0 {
					t.Errorf("decision %+v", d)
				}
				r := w.replies[0]
				if len(r.SideEffects) != len(c.effects) {
					t.Errorf("side effects %s", r.SideEffects)
				}
				switch {
				case c.code == "":
				case !c.dry && d.Effect != envelope.EffectApplied, c.dry && d.Effect != envelope.EffectNone:
					t.Errorf("effect %s", d.Effect)
				case !strings.Contains(r.Error.Message, "db:orders"):
					t.Errorf("the error is %v", r.Error)
				}
			})
		})
	}
}

// A tool that is not allowed to write anywhere, as a pure one, has no write target. What it reports all the same is on
// record, and the effect says that it happened.
func TestNoWriteTarget(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.execute = func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
			return tool.Result{Output: jsontext.Value(`{}`), SideEffects: []jsontext.Value{
				jsontext.Value(`{"kind":"x","target":"y"}`)}}, nil
		}
		w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
		d := w.decided(1)
		if d.Code != envelope.CodeWriteTarget || d.Effect != envelope.EffectApplied ||
			d.Writes != `[{"kind":"x","target":"y"}]` {
			t.Errorf("decision %+v", d)
		}
		if r := w.replies[0]; !strings.HasSuffix(r.Error.Message, " and may write to no target") ||
			r.Error.Details.Effect != d.Effect {
			t.Errorf("the error is %+v", r.Error)
		}
	})
}

// A pure tool that a policy allows to write has the effect that it reports.
func TestPureToolWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.Pure)
		w.writes = true
		w.execute = func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
			return tool.Result{Output: jsontext.Value(`{}`), SideEffects: []jsontext.Value{
				jsontext.Value(`{"target":"y"}`)}}, nil
		}
		w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
		if d := w.decided(1); d.Code != "" || d.Writes != `[{"target":"y"}]` || d.Effect != envelope.EffectApplied {
			t.Errorf("decision %+v", d)
		}
	})
}
