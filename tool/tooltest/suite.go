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

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/tool"
)

// Fixture is what the suite runs against.
type Fixture struct {
	Adapter tool.Adapter
	// Manifest of a tool that does what Behave and BehaveLookup do. The suite changes copies
	// of it: determinism, limits, capabilities and errors are its own.
	Manifest *tool.Manifest
	// Processes says that every run has processes, so that FnDaemons is there.
	Processes bool
}

// patience is how long anything that should happen may take on a busy machine. Times that the
// contract promises are checked on their own.
const patience = 30 * time.Second

// promptly is how soon a run must be gone after its context (design, 5: within a second).
const promptly = time.Second

// Run runs the suite. It calls open once for each test.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"validate", testValidate},
		{"tells the tool everything", testEcho},
		{"keeps text as it is", testUnicode},
		{"passes chunks on in order", testChunks},
		{"passes side effects and warnings on", testEffects},
		{"takes a big output", testBig},
		{"maps the tool's errors", testErrors},
		{"never makes an unsafe call retryable", testUnsafe},
		{"refuses output that is no JSON", testBadOutput},
		{"survives a crash", testCrash},
		{"ends at the deadline", testDeadline},
		{"ends when cancelled", testCancel},
		{"starts nothing when the context is over", testOver},
		{"ends whole process trees", testDaemons},
		{"limits output", testOutputLimit},
		{"limits chunks", testChunkLimit},
		{"ends when the sink fails", testSinkError},
		{"looks up", testLookup},
		{"classifies any error", testClassify},
		{"runs many at once", testConcurrent},
		{"leaks nothing", testLeaks},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := open(t)
			test.run(t, &suite{Fixture: f, manifest: prepared(f.Manifest)})
		})
	}
}

type suite struct {
	Fixture
	manifest *tool.Manifest
}

// prepared returns a copy of m with what the suite relies on.
func prepared(m *tool.Manifest) *tool.Manifest {
	c := *m
	c.Determinism = tool.Idempotent
	c.Capability.Lookup, c.Capability.DryRun, c.Capability.Streaming = true, true, true
	c.Limits = tool.Limits{
		TimeoutDefault: patience, TimeoutMax: patience, MemoryMB: 512, Concurrency: 50,
		OutputBytes: 2 << 20, StderrBytes: 16 << 10,
	}
	c.Errors = map[string]tool.ErrorSpec{
		"busy":    {Name: "busy", Class: envelope.ClassCapacity, HTTPStatus: 429, Message: "busy", Fix: "wait"},
		"refused": {Name: "refused", Class: envelope.ClassPrecondition, HTTPStatus: 409, Message: "refused", Fix: "ask"},
	}
	return &c
}

// invocation returns one with everything set.
func (s *suite) invocation(t *testing.T, fn string, in Input) tool.Invocation {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Invocation{
		CallID: "6f1c1f43-2f6b-4c3e-9f57-0f8f3f0f8a01", ToolID: s.manifest.ToolID, ToolVersion: s.manifest.Semver,
		Fn: fn, Input: raw, IdempotencyKey: "key-0123456789abcdef", Attempt: 2, Fence: 1<<63 + 7,
		Context: envelope.Context{
			ActorID: "agent://suite", TraceID: "0b6b4b0e-6a55-4b3c-9c3c-2f7a6a0e6d11", Timezone: "UTC", Env: "dev",
			Scopes: []string{"read:x"},
		},
		Deadline: time.UnixMilli(4_102_444_800_000),
	}
}

// execute runs one function to its end.
func (s *suite) execute(t *testing.T, fn string, in Input) (tool.Result, *Recorder, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sink := &Recorder{}
	result, err := s.Adapter.Execute(ctx, s.manifest, s.invocation(t, fn, in), sink)
	return result, sink, err
}

// fails runs one function and returns how its error is classified.
func (s *suite) fails(t *testing.T, fn string, in Input) *envelope.Error {
	t.Helper()
	result, _, err := s.execute(t, fn, in)
	if err == nil {
		t.Fatalf("%s succeeded with %s", fn, result.Output)
	}
	return s.Adapter.ClassifyError(s.manifest, err)
}

func testValidate(t *testing.T, s *suite) {
	if err := s.Adapter.Validate(s.manifest); err != nil {
		t.Errorf("Validate: %v", err)
	}
	foreign := *s.manifest
	foreign.Transport = "carrier pigeon"
	if s.Adapter.Validate(&foreign) == nil {
		t.Error("Validate took a manifest of another transport")
	}
}

func testEcho(t *testing.T, s *suite) {
	for _, dryRun := range []bool{false, true} {
		inv := s.invocation(t, FnEcho, Input{Text: "hello"})
		inv.DryRun = dryRun
		result, err := s.Adapter.Execute(t.Context(), s.manifest, inv, &Recorder{})
		if err != nil {
			t.Fatal(err)
		}
		var got Echo
		if err := json.Unmarshal(result.Output, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(echo(inv), got); diff != "" {
			t.Errorf("the tool was told (-want +got):\n%s", diff)
		}
	}
}

func testUnicode(t *testing.T, s *suite) {
	text := "ü 漢字 🚀 \u0000 \u2028 \" \\ \n </script> \ufeff"
	result, _, err := s.execute(t, FnEcho, Input{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Input Input `json:"input"`
	}
	if err := json.Unmarshal(result.Output, &got); err != nil {
		t.Fatal(err)
	}
	if got.Input.Text != text {
		t.Errorf("got %q, want %q", got.Input.Text, text)
	}
}

func testChunks(t *testing.T, s *suite) {
	const n = 100
	result, sink, err := s.execute(t, FnChunks, Input{N: n})
	if err != nil {
		t.Fatal(err)
	}
	if string(result.Output) != fmt.Sprint(n) {
		t.Errorf("output %s, want %d", result.Output, n)
	}
	var want []Emitted
	for i := range n {
		data := fmt.Sprintf(`{"i":%d}`, i)
		want = append(want, Emitted{envelope.ChunkData, data}, Emitted{envelope.ChunkProgress, data}, Emitted{envelope.ChunkLog, data})
	}
	if diff := cmp.Diff(want, sink.All()); diff != "" {
		t.Errorf("chunks (-want +got):\n%s", diff)
	}
}

func testEffects(t *testing.T, s *suite) {
	result, _, err := s.execute(t, FnEffects, Input{})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.SideEffects) != 1 || result.SideEffects[0].Kind() != '{' || len(result.Warnings) != 1 {
		t.Errorf("side effects %s, warnings %q", result.SideEffects, result.Warnings)
	}
}

func testBig(t *testing.T, s *suite) {
	const n = 1_000_000
	result, _, err := s.execute(t, FnBig, Input{N: n})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Output) != n+2 {
		t.Errorf("output of %d bytes, want %d", len(result.Output), n+2)
	}
}

func testErrors(t *testing.T, s *suite) {
	details := jsontext.Value(`{"url":"https://example.com","effect":"none"}`)
	tests := []struct {
		name        string
		determinism tool.Determinism
		fault       Fault
		want        envelope.Error // the fields that are compared
	}{
		{
			"declared", tool.Idempotent, Fault{Code: "busy", Message: "come back", Details: details, Effect: envelope.EffectNone, RetryAfterMS: 1234},
			envelope.Error{Code: "R-CAP-BUSY", Message: "come back", Fix: "wait", Details: envelope.Details{
				ToolCode: "busy", HTTPStatus: 429, Effect: envelope.EffectNone, RetryAfterMS: 1234,
				Extra: map[string]jsontext.Value{"url": jsontext.Value(`"https://example.com"`)},
			}},
		},
		{
			"declared, with the manifest's message", tool.Idempotent, Fault{Code: "refused", Effect: envelope.EffectApplied},
			envelope.Error{Code: "P-PRECOND-REFUSED", Message: "refused", Fix: "ask", Details: envelope.Details{
				ToolCode: "refused", HTTPStatus: 409, Effect: envelope.EffectApplied,
			}},
		},
		{
			"silent about its effect", tool.Idempotent, Fault{Code: "refused", Message: "no"},
			envelope.Error{Code: "P-PRECOND-REFUSED", Message: "no", Fix: "ask", Details: envelope.Details{
				ToolCode: "refused", HTTPStatus: 409, Effect: envelope.EffectUnknown,
			}},
		},
		{
			"silent about its effect, pure", tool.Pure, Fault{Code: "refused", Message: "no"},
			envelope.Error{Code: "P-PRECOND-REFUSED", Message: "no", Fix: "ask", Details: envelope.Details{
				ToolCode: "refused", HTTPStatus: 409, Effect: envelope.EffectNone,
			}},
		},
		{
			"not declared", tool.Idempotent, Fault{Code: "surprise", Message: "oops"},
			envelope.Error{
				Code: "S-TOOL-SURPRISE", Message: "oops", Fix: "declare the error surprise in the tool's manifest",
				Details: envelope.Details{ToolCode: "surprise", Effect: envelope.EffectUnknown, RetryAfterMS: 200},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s.manifest.Determinism = test.determinism
			got := s.fails(t, FnFail, Input{Fault: &test.fault})
			same := envelope.Error{Code: got.Code, Message: got.Message, Fix: got.Fix, Details: got.Details}
			if len(same.Details.Extra) == 0 {
				same.Details.Extra = nil
			}
			if diff := cmp.Diff(test.want, same); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// testUnsafe holds promise P3: a side-effectful call may be made again only when it is known
// that nothing happened.
func testUnsafe(t *testing.T, s *suite) {
	s.manifest.Determinism = tool.SideEffectful
	for _, effect := range []envelope.Effect{"", envelope.EffectUnknown, envelope.EffectApplied, envelope.EffectNone} {
		got := s.fails(t, FnFail, Input{Fault: &Fault{Code: "busy", Message: "come back", Effect: effect}})
		if want := effect == envelope.EffectNone; got.Retryable != want {
			t.Errorf("effect %q: %s is retryable: %t, want %t", effect, got.Code, got.Retryable, want)
		}
		if got.Details.ToolCode != "busy" || got.Message != "come back" {
			t.Errorf("effect %q: what the tool said is lost: %v", effect, got)
		}
	}
	if got := s.fails(t, FnCrash, Input{}); got.Retryable {
		t.Errorf("a crash is %s, retryable", got.Code)
	}
}

func testBadOutput(t *testing.T, s *suite) {
	if got := s.fails(t, FnBadOutput, Input{}); got.Code != envelope.CodeToolProtocol || got.Details.Effect != envelope.EffectUnknown {
		t.Errorf("got %v, effect %s", got, got.Details.Effect)
	}
}

func testCrash(t *testing.T, s *suite) {
	got := s.fails(t, FnCrash, Input{})
	if got.Code != envelope.CodeToolFault || got.Details.Effect != envelope.EffectUnknown {
		t.Errorf("got %v, effect %s", got, got.Details.Effect)
	}
	if !strings.Contains(got.Details.Stderr, "crash as asked") {
		t.Errorf("stderr %q does not say why", got.Details.Stderr)
	}
	if _, _, err := s.execute(t, FnEcho, Input{}); err != nil {
		t.Errorf("after a crash: %v", err)
	}
}

// stop runs a function that waits, ends its context once it runs, and returns the error.
func (s *suite) stop(t *testing.T, ctx context.Context, cancel func()) error {
	t.Helper()
	stopped := make(chan time.Time, 1)
	context.AfterFunc(ctx, func() { stopped <- time.Now() })
	sink := &Recorder{OnEmit: func(Emitted) error { cancel(); return nil }}
	_, err := s.Adapter.Execute(ctx, s.manifest, s.invocation(t, FnWait, Input{}), sink)
	if took := time.Since(<-stopped); took > promptly {
		t.Errorf("the run ended %v after its context, want at most %v", took, promptly)
	}
	if err == nil {
		t.Fatal("a run that was ended succeeded")
	}
	return err
}

func testDeadline(t *testing.T, s *suite) {
	for determinism, want := range map[tool.Determinism]envelope.Code{
		tool.Pure: envelope.CodeTimeout, tool.Idempotent: envelope.CodeTimeout, tool.SideEffectful: envelope.CodeTimeoutUnknown,
	} {
		s.manifest.Determinism = determinism
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := s.stop(t, ctx, func() {})
		cancel()
		if got := s.Adapter.ClassifyError(s.manifest, err); got.Code != want {
			t.Errorf("%s: %v is %s, want %s", determinism, err, got.Code, want)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v does not wrap context.DeadlineExceeded", err)
		}
	}
}

func testCancel(t *testing.T, s *suite) {
	cause := errors.New("the owner wants no answer")
	for determinism, want := range map[tool.Determinism]envelope.Code{
		tool.Pure: envelope.CodeCancelled, tool.Idempotent: envelope.CodeCancelled, tool.SideEffectful: envelope.CodeCancelledUnknown,
	} {
		s.manifest.Determinism = determinism
		ctx, cancel := context.WithCancelCause(t.Context())
		err := s.stop(t, ctx, func() { cancel(cause) })
		if got := s.Adapter.ClassifyError(s.manifest, err); got.Code != want {
			t.Errorf("%s: %v is %s, want %s", determinism, err, got.Code, want)
		}
		if !errors.Is(err, cause) {
			t.Errorf("%v does not wrap the cause", err)
		}
	}
}

func testOver(t *testing.T, s *suite) {
	s.manifest.Determinism = tool.SideEffectful
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sink := &Recorder{}
	_, err := s.Adapter.Execute(ctx, s.manifest, s.invocation(t, FnChunks, Input{N: 1}), sink)
	if got := s.Adapter.ClassifyError(s.manifest, err); got.Code != envelope.CodeCancelled || got.Details.Effect != envelope.EffectNone {
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
	cancel()
	start := time.Now()
	if err := <-done; err == nil {
		t.Error("a run that was ended succeeded")
	}
	if took := time.Since(start); took > promptly {
		t.Errorf("the run ended %v after its context, want at most %v", took, promptly)
	}
	witness.Gone(t)
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
	if got := s.Adapter.ClassifyError(s.manifest, err); got.Code != envelope.CodeOutputLimit {
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
	if got := s.Adapter.ClassifyError(s.manifest, err); got.Code != envelope.CodeUpstream {
		t.Errorf("got %v", got)
	}
}

func testLookup(t *testing.T, s *suite) {
	lookup := func(key string) (tool.Result, bool, error) {
		inv := s.invocation(t, FnEcho, Input{})
		inv.IdempotencyKey = key
		return s.Adapter.Lookup(t.Context(), s.manifest, inv)
	}
	result, found, err := lookup(KeyCommitted)
	if err != nil || !found || result.Output.Kind() != '{' {
		t.Errorf("committed: %s, %t, %v", result.Output, found, err)
	}
	if _, found, err = lookup("absent-0123456789"); err != nil || found {
		t.Errorf("absent: %t, %v", found, err)
	}
	if _, found, err = lookup(KeyBroken); err == nil || found {
		t.Errorf("broken: %t, %v", found, err)
	} else if got := s.Adapter.ClassifyError(s.manifest, err); got.Code != "R-CAP-BUSY" {
		t.Errorf("broken: %v", got)
	}
	s.manifest.Capability.Lookup = false
	if _, found, err = lookup(KeyCommitted); !errors.Is(err, tool.ErrNoLookup) || found {
		t.Errorf("without lookup: %t, %v", found, err)
	}
}

func testClassify(t *testing.T, s *suite) {
	for _, err := range []error{nil, errors.New("anything"), context.Canceled, fmt.Errorf("wrapped: %w", &tool.LimitError{Limit: 1})} {
		got := s.Adapter.ClassifyError(s.manifest, err)
		if got == nil || got.Code.Class() == "" || got.Details.Effect == "" {
			t.Errorf("%v: %+v", err, got)
		}
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
	run() // what stays for good is there now
	files, routines := openFiles(t), runtime.NumGoroutine()
	for range 200 {
		run()
	}
	if n := openFiles(t); n > files {
		t.Errorf("%d open files after 200 runs, %d before", n, files)
	}
	more := func() bool { return runtime.NumGoroutine() > routines }
	for deadline := time.Now().Add(patience); more() && time.Now().Before(deadline); {
		runtime.Gosched() // a goroutine that has done its work may still have to end
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
