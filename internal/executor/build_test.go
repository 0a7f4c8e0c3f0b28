package executor_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/calltest"
	"github.com/seed-018f16cc/toolbus/internal/executor"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Digests of builds.
const buildA, buildB = "sha256:aaaaaaaaaaaaaaaa", "sha256:bbbbbbbbbbbbbbbb"

// otherBuilds are the builds that an executor may have instead of the admitted one. nil means that it does not have the
// tool.
func otherBuilds(admitted *tool.Manifest) map[string]*tool.Manifest {
	build, version := *admitted, *admitted
	build.Digest = buildB
	version.Digest, version.Semver = buildB, "2.0.0"
	return map[string]*tool.Manifest{"another build": &build, "another version": &version, "no build": nil}
}

// eachOther runs a test with an executor that does not have the admitted build.
func eachOther(t *testing.T, test func(t *testing.T, w *world, m executor.Message)) {
	each(t, func(t *testing.T, w *world) {
		admitted := w.manifest
		for name, other := range otherBuilds(admitted) {
			w.t.Log(name)
			w.manifest, w.log, w.runs, w.replies, w.gone = admitted, &calltest.Log{}, nil, nil, map[string]bool{}
			w.ex = w.executor("default/e1")
			pass(time.Second)
			m := w.admit(callA, time.Minute)
			w.manifest = other
			test(t, w, m)
			if len(w.runs) != 0 {
				t.Errorf("%s: it ran %d times", name, len(w.runs))
			}
		}
	})
}

// A call never runs as another build than the admitted one. It is handed back, a little later each time, the log says
// nothing of it, and the executor reports which build it is without.
func TestOtherBuildIsHandedBack(t *testing.T) {
	eachOther(t, func(t *testing.T, w *world, m executor.Message) {
		var out bytes.Buffer
		w.ex.Logger = slog.New(slog.NewTextHandler(&out, nil))
		last := time.Duration(0)
		for n := range 60 {
			m := again(m)
			m.Deliveries = n + 1
			w.ex.Handle(t.Context(), m)
			w.wantAcked(m, false)
			h := m.Lease.(*holding)
			after := h.handedBack[0]
			if after < last || after < 50*time.Millisecond || after > 2*time.Second || h.declined != 0 {
				t.Errorf("delivery %d: handed back for %s after %s", n+1, after, last)
			}
			last = after
		}
		if s := w.state(); !s.Last().Open() || s.Last().Claim != nil {
			t.Errorf("the log has %+v", s.Last())
		}
		want := []executor.MissingBuild{{Tool: "echo", Build: buildA}}
		if w.manifest != nil {
			want[0].Has = buildB
		}
		if got := w.ex.Missing(); !slices.Equal(got, want) {
			t.Errorf("it reports %+v", got)
		}
		select {
		case <-w.ex.MissingChanged():
		default:
			t.Error("no heartbeat is asked for")
		}
		if n := strings.Count(out.String(), "level=WARN"); n != 1 ||
			!strings.Contains(out.String(), "tool=echo pool=default call=id1 admitted=sha256:aaaaaaaaaaaa here=") {
			t.Errorf("%d warnings: %s", n, &out)
		}
	})
}

// An executor with another build ends the deliveries of a call that is decided, so that they do not go on until its
// deadline. It ends one that is past its deadline, too.
func TestOtherBuildOfEndedCall(t *testing.T) {
	eachOther(t, func(t *testing.T, w *world, m executor.Message) {
		w.cancel()
		second := again(m)
		w.ex.Handle(t.Context(), second)
		w.wantAcked(second, true)
	})
	eachOther(t, func(t *testing.T, w *world, m executor.Message) {
		pass(time.Minute)
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, true)
		if d := w.decided(1); d.Code != envelope.CodeUnavailable || d.Effect != envelope.EffectNone {
			t.Errorf("decision %+v", d)
		}
		if got := w.ex.Missing(); len(got) != 0 {
			t.Errorf("it reports %+v", got)
		}
	})
}

// The lookup of another build is not asked: its answer would stand for the admitted one. Without a lookup, nothing of
// the build is needed to end the call of an executor that is gone.
func TestOtherBuildDoesNotLookUp(t *testing.T) {
	for _, admitted := range []call.Lookup{call.LookupYes, call.LookupNo} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, call.SideEffectful)
			w.admitted, w.manifest.Capability.Lookup = admitted, true
			w.lookup = func(tool.Invocation) (tool.Result, bool, error) {
				t.Error("the lookup of another build was asked")
				return tool.Result{Output: []byte(`{}`)}, true, nil
			}
			m := w.admit(callA, time.Minute)
			w.claimedBy("default/e0", m)
			w.gone["default/e0"] = true
			w.manifest.Digest = buildB
			m = again(m)
			w.ex.Handle(t.Context(), m)
			w.wantAcked(m, admitted == call.LookupNo)
			if admitted == call.LookupYes {
				return
			}
			if d := w.decided(1); d.Code != envelope.CodeToolUnknownState || d.Effect != envelope.EffectUnknown {
				t.Errorf("decision %+v", d)
			}
		})
	}
}

// claimedBy writes the claim of another executor.
func (w *world) claimedBy(instance string, m executor.Message) {
	w.t.Helper()
	step, claim := call.Take(w.state(), call.WorkDelivery{
		Attempt: 1, Admitted: m.Entry.State.Seq, Deliveries: 1, Now: call.At(time.Now()), By: instance, Nonce: "e0.1",
	})
	if step != call.TakeClaim {
		w.t.Fatalf("step %d", step)
	}
	if _, err := w.log.Write(w.t.Context(), claim, nil); err != nil {
		w.t.Fatal(err)
	}
}

// Calls of a missing build take none of the concurrency of the tool.
func TestOtherBuildTakesNoConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.Pure)
		w.manifest.Limits.Concurrency = 1
		old := w.admitAs("id2", callB, time.Minute)
		w.manifest.Digest = buildB
		m := w.admit(callA, time.Minute)
		w.execute = func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			w.ex.Handle(t.Context(), old)
			return tool.Result{Output: inv.Input}, nil
		}
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, true)
		w.wantAcked(old, false)
		next := w.admitAs("id3", callA, time.Minute)
		w.execute = func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			return tool.Result{Output: inv.Input}, nil
		}
		w.ex.Handle(t.Context(), next)
		w.wantAcked(next, true)
	})
}

// What an executor reports is bounded, the newest first, and expires with the last delivery.
func TestMissingBuildsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.Pure)
		for n := range 40 {
			w.manifest.Digest = fmt.Sprint("sha256:", n)
			m := w.admitAs(fmt.Sprint("id", n), callA, 10*time.Minute)
			w.manifest.Digest = buildB
			w.ex.Handle(t.Context(), m)
			pass(time.Second)
		}
		got := w.ex.Missing()
		if len(got) != 32 || got[0].Build != "sha256:39" || got[31].Build != "sha256:8" {
			t.Errorf("%d builds, %+v", len(got), got)
		}
		pass(50 * time.Second)
		if got := w.ex.Missing(); len(got) != 10 || got[9].Build != "sha256:30" {
			t.Errorf("50 s later: %+v", got)
		}
		pass(time.Minute)
		if got := w.ex.Missing(); len(got) != 0 {
			t.Errorf("later: %+v", got)
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
			!strings.Contains(r.Warnings[0], "chunk, progress and log lines were dropped (3)") {
			t.Errorf("%s with chunks %+v and warnings %q", r.Status, r.Provenance.Chunks, r.Warnings)
		}
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
