package tooltest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Fixture is the adapter under test, with a tool for it.
type Fixture struct {
	Adapter tool.Adapter
	// Manifest belongs to a tool that behaves as Behave and BehaveLookup, and as BehaveValidate if Adapter is a
	// tool.CallValidator. The suite changes determinism, limits,
	// capabilities and errors in copies of it.
	Manifest *tool.Manifest
	// Processes is true if every run has processes, so that the tool has FnDaemons.
	Processes bool
}

// patience is the time for anything that must happen, on a busy machine. The times that the contract promises are
// checked separately.
const patience = 30 * time.Second

// promptly is the time in which a run must have ended after its context, in addition to the measured delay of timers.
const promptly = time.Second

// Run runs the suite. It calls open once for each test.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"validate", testValidate},
		{"validates calls before they run", testValidateCall},
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

// prepared returns a copy of m with the values that the suite relies on.
func prepared(m *tool.Manifest) *tool.Manifest {
	c := *m
	c.Class = call.Idempotent
	c.Capability.Lookup, c.Capability.DryRun, c.Capability.Streaming = true, true, true
	c.Limits = envelope.ToolLimits{
		TimeoutDefaultMS: patience.Milliseconds(), TimeoutMaxMS: patience.Milliseconds(), MemoryMB: 512, Concurrency: 50,
		OutputBytes: 2 << 20, StderrBytes: 16 << 10,
	}
	c.Errors = map[string]tool.ErrorSpec{
		"busy":    {Name: "busy", Class: envelope.ClassCapacity, HTTPStatus: 429, Message: "busy", Fix: "wait"},
		"refused": {Name: "refused", Class: envelope.ClassPrecondition, HTTPStatus: 409, Message: "refused", Fix: "ask"},
	}
	return &c
}

// invocation returns an invocation with all fields set.
func (s *suite) invocation(t *testing.T, fn string, in Input) tool.Invocation {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Invocation{
		CallID: "6f1c1f43-2f6b-4c3e-9f57-0f8f3f0f8a01", ToolID: s.manifest.ToolID, ToolVersion: s.manifest.Semver,
		Fn: fn, Input: raw, IdempotencyKey: "key-0123456789abcdef", Attempt: 2, Fence: 1<<63 + 7,
		Context: jsontext.Value(`{"actor_id":"agent://suite","scopes":["read:x"],` +
			`"trace_id":"0b6b4b0e-6a55-4b3c-9c3c-2f7a6a0e6d11","timezone":"UTC","env":"dev","new":{"a":[1]}}`),
		Deadline: time.UnixMilli(4_102_444_800_000), Digest: "sha256:" + strings.Repeat("0a", 32),
		Traceparent: "00-0b6b4b0e6a554b3c9c3c2f7a6a0e6d11-00f067aa0ba902b7-01",
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

// fails runs one function, and returns its classified error.
func (s *suite) fails(t *testing.T, fn string, in Input) *envelope.Error {
	t.Helper()
	result, _, err := s.execute(t, fn, in)
	if err == nil {
		t.Fatalf("%s succeeded with %s", fn, result.Output)
	}
	return tool.ClassifyError(s.Adapter, s.manifest, err)
}
