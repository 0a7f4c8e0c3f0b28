package executor_test

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
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Work of a tool that is not here is given to others, and the operator is told which: nobody else would say.
func TestToolIsNotHere(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var out bytes.Buffer
		w.ex.Logger = slog.New(slog.NewTextHandler(&out, nil))
		m := w.admit(callA, time.Minute)
		w.manifest = nil
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, false)
		if !strings.Contains(out.String(), "tool=echo pool=default call=id1") {
			t.Errorf("logged %s", &out)
		}
	})
}

// While a tool is replaced, hosts may have builds of it that say of themselves to be the same version. One
// of another effect class would be run again after a crash, or not, by the wrong rules; one without a dry
// run would do the real thing.
func TestOtherBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, class := range []call.EffectClass{call.Pure, call.Idempotent, call.SideEffectful} {
			if class == w.manifest.Class {
				continue
			}
			m := w.admit(callA, time.Minute)
			admitted := w.manifest
			other := *admitted
			other.Class = class
			w.manifest = &other
			w.ex.Handle(t.Context(), m)
			w.wantAcked(m, true)
			if d := w.decided(1); d.Code != envelope.CodeVersion || d.Effect != envelope.EffectNone || len(w.runs) != 0 {
				t.Errorf("%s for %s: decision %+v after %d runs", class, admitted.Class, d, len(w.runs))
			}
			w.manifest, w.log = admitted, &calltest.Log{}
			w.ex = w.executor("default/e1")
			pass(time.Second)
		}
	})
}

// What differs in less is run, and the outcome says by which build: on record is the one that was admitted.
func TestDigestOfOtherBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Minute)
		w.manifest.Digest = "sha256:other"
		w.ex.Handle(t.Context(), m)
		if r := w.replies[0]; r.Status != envelope.Success || len(r.Warnings) != 1 ||
			!strings.Contains(r.Warnings[0], "sha256:other") {
			t.Errorf("%s with warnings %q", r.Status, r.Warnings)
		}
	})
}

// Chunks of a tool that declares no streaming are nowhere announced, and go nowhere.
func TestChunksOfNoStream(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.manifest.Capability.Streaming = false
		w.execute = func(ctx context.Context, inv tool.Invocation, sink tool.Sink) (tool.Result, error) {
			for range 3 {
				if err := sink.Emit(ctx, envelope.ChunkData, []byte(`1`)); err != nil {
					t.Error(err)
				}
			}
			return tool.Result{Output: inv.Input}, nil
		}
		w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
		r := w.replies[0]
		if r.Status != envelope.Success || r.Provenance.Chunks != nil || len(r.Warnings) != 1 ||
			!strings.Contains(r.Warnings[0], "3 chunks") {
			t.Errorf("%s with chunks %+v and warnings %q", r.Status, r.Provenance.Chunks, r.Warnings)
		}
	})
}

func TestFunctionOfOtherBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Minute)
		w.manifest.Functions = map[string]*tool.Function{"sing": w.manifest.Functions["say"]}
		w.ex.Handle(t.Context(), m)
		if d := w.decided(1); d.Code != envelope.CodeVersion || d.Effect != envelope.EffectNone || len(w.runs) != 0 {
			t.Errorf("decision %+v after %d runs", d, len(w.runs))
		}
	})
}

func TestDryRunOfOtherBuild(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.dryRun = true
		m := w.admit(callA, time.Minute)
		w.ex.Handle(t.Context(), m)
		if d := w.decided(1); d.Code != envelope.CodeVersion || d.Effect != envelope.EffectNone || len(w.runs) != 0 {
			t.Errorf("decision %+v after %d runs", d, len(w.runs))
		}
	})
}

// What this executor cannot run is not decided here, except where the build differs.
func TestUnknownTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.Pure)
		m := w.admit(callA, time.Minute)
		w.manifest.Semver = "2.0.0"
		w.ex.Handle(t.Context(), m)
		if d := w.decided(1); d.Code != envelope.CodeVersion || d.Effect != envelope.EffectNone {
			t.Errorf("decision %+v", d)
		}
		w.manifest = nil
		second := again(m)
		w.ex.Handle(t.Context(), second)
		w.wantAcked(second, false)
	})
}

// A dry run that crashes, or fails with an effect, changed nothing: it may run again.
func TestDryRunThatFails(t *testing.T) {
	for name, err := range map[string]error{
		"crash": &tool.CrashError{How: "exit status 3"}, "error": &tool.Error{Code: "boo", Effect: envelope.EffectApplied},
	} {
		each(t, func(t *testing.T, w *world) {
			w.dryRun, w.manifest.Capability.DryRun = true, true
			w.execute = func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) { return tool.Result{}, err }
			w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
			if d := w.decided(1); d.Status != envelope.RetryableError || d.Code == envelope.CodeToolUnknownState ||
				d.Effect != envelope.EffectNone {
				t.Errorf("%s: decision %+v", name, d)
			}
		})
	}
}
