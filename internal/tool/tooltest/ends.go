package tooltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// stop runs a function that waits, ends its context while it runs, and returns the error.
func (s *suite) stop(t *testing.T, ctx context.Context, cancel func()) error {
	t.Helper()
	watch := timertest.StartStallMeter()
	defer watch.End()
	stopped := make(chan time.Time, 1)
	context.AfterFunc(ctx, func() { stopped <- time.Now() })
	sink := &Recorder{OnEmit: func(Emitted) error { cancel(); return nil }}
	_, err := s.Adapter.Execute(ctx, s.manifest, s.invocation(t, FnWait, Input{}), sink)
	if took := time.Since(<-stopped); took > promptly+watch.Late() {
		t.Errorf("the run ended %v after its context, want at most %v", took, promptly)
	}
	if err == nil {
		t.Fatal("a run that was ended succeeded")
	}
	return err
}

func testDeadline(t *testing.T, s *suite) {
	for determinism, want := range map[call.EffectClass]envelope.Code{
		call.Pure: envelope.CodeTimeout, call.Idempotent: envelope.CodeTimeout,
		call.SideEffectful: envelope.CodeTimeoutUnknown,
	} {
		s.manifest.Class = determinism
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // it must run by then
		err := s.stop(t, ctx, func() {})
		cancel()
		if got := tool.ClassifyError(s.Adapter, s.manifest, err); got.Code != want {
			t.Errorf("%s: %v is %s, want %s", determinism, err, got.Code, want)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v does not wrap context.DeadlineExceeded", err)
		}
	}
}

func testCancel(t *testing.T, s *suite) {
	cause := errors.New("the owner wants no answer")
	for determinism, want := range map[call.EffectClass]envelope.Code{
		call.Pure: envelope.CodeCancelled, call.Idempotent: envelope.CodeCancelled,
		call.SideEffectful: envelope.CodeCancelledUnknown,
	} {
		s.manifest.Class = determinism
		ctx, cancel := context.WithCancelCause(t.Context())
		err := s.stop(t, ctx, func() { cancel(cause) })
		if got := tool.ClassifyError(s.Adapter, s.manifest, err); got.Code != want {
			t.Errorf("%s: %v is %s, want %s", determinism, err, got.Code, want)
		}
		if !errors.Is(err, cause) {
			t.Errorf("%v does not wrap the cause", err)
		}
	}
}

func testOver(t *testing.T, s *suite) {
	s.manifest.Class = call.SideEffectful
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sink := &Recorder{}
	_, err := s.Adapter.Execute(ctx, s.manifest, s.invocation(t, FnChunks, Input{N: 1}), sink)
	if got := tool.ClassifyError(s.Adapter, s.manifest, err); got.Code != envelope.CodeCancelled ||
		got.Details.Effect != envelope.EffectNone {
		t.Errorf("got %v, effect %s", got, got.Details.Effect)
	}
	if n := len(sink.All()); n > 0 {
		t.Errorf("%d chunks of a run that must not start", n)
	}
}

func testDaemons(t *testing.T, s *suite) {
	if !s.Processes {
		t.Log("runs of this adapter have no processes")
		return
	}
	witness := Witness(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := s.Adapter.Execute(ctx, s.manifest, s.invocation(t, FnDaemons, Input{Socket: witness.Path}), &Recorder{})
		done <- err
	}()
	witness.Alive(t, 2)
	watch := timertest.StartStallMeter()
	defer watch.End()
	cancel()
	start := time.Now()
	if err := <-done; err == nil {
		t.Error("a run that was ended succeeded")
	}
	took := time.Since(start)
	witness.Gone(t)
	if took > promptly+watch.Late() {
		t.Errorf("the run ended %v after its context, want at most %v", took, promptly)
	}
}

func testOutputLimit(t *testing.T, s *suite) {
	s.manifest.Limits.OutputBytes = 10_000
	got := s.fails(t, FnBig, Input{N: 20_000})
	if got.Code != envelope.CodeOutputLimit {
		t.Errorf("got %v", got)
	}
}

func testChunkLimit(t *testing.T, s *suite) {
	s.manifest.Limits.OutputBytes = 100_000
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sink := &Recorder{}
	_, err := s.Adapter.Execute(ctx, s.manifest, s.invocation(t, FnFlood, Input{}), sink)
	if got := tool.ClassifyError(s.Adapter, s.manifest, err); got.Code != envelope.CodeOutputLimit {
		t.Errorf("got %v from %v", got, err)
	}
	var total int
	for _, e := range sink.All() {
		total += len(e.Data)
	}
	if total > 100_000 {
		t.Errorf("%d bytes of chunks passed a limit of 100000", total)
	}
}

func testSinkError(t *testing.T, s *suite) {
	full := errors.New("the stream is gone")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sink := &Recorder{OnEmit: func(Emitted) error { return full }}
	_, err := s.Adapter.Execute(ctx, s.manifest, s.invocation(t, FnFlood, Input{}), sink)
	if !errors.Is(err, full) {
		t.Errorf("%v does not wrap the sink's error", err)
	}
	if n := len(sink.All()); n != 1 {
		t.Errorf("%d chunks after the sink failed, want none", n-1)
	}
	if got := tool.ClassifyError(s.Adapter, s.manifest, err); got.Code != envelope.CodeUpstream {
		t.Errorf("got %v", got)
	}
}

func testConcurrent(t *testing.T, s *suite) {
	var runs sync.WaitGroup
	for i := range 50 {
		runs.Go(func() {
			text := fmt.Sprintf("run %d", i)
			inv := s.invocation(t, FnEcho, Input{Text: text})
			result, err := s.Adapter.Execute(t.Context(), s.manifest, inv, &Recorder{})
			if err != nil || !strings.Contains(string(result.Output), `"`+text+`"`) {
				t.Errorf("%s: %s, %v", text, result.Output, err)
			}
		})
	}
	runs.Wait()
}

func testLeaks(t *testing.T, s *suite) {
	run := func() {
		if _, _, err := s.execute(t, FnEcho, Input{}); err != nil {
			t.Fatal(err)
		}
	}
	run() // allocate everything that stays for good
	files, routines := openFiles(t), runtime.NumGoroutine()
	for range 200 {
		run()
	}
	if n := openFiles(t); n > files {
		t.Errorf("%d open files after 200 runs, %d before", n, files)
	}
	more := func() bool { return runtime.NumGoroutine() > routines }
	for deadline := time.Now().Add(patience); more() && time.Now().Before(deadline); {
		runtime.Gosched() // a goroutine may still have to end after its work
	}
	if more() {
		t.Errorf("%d goroutines after 200 runs, %d before", runtime.NumGoroutine(), routines)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
