package native_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func manifest() *tool.Manifest {
	return &tool.Manifest{
		ToolID: "test.native", Semver: "1.2.3", Status: tool.StatusActive, Class: call.Idempotent,
		Transport: native.Transport, Endpoint: native.Endpoint{Native: "behave"},
		Limits: envelope.ToolLimits{TimeoutMaxMS: 60_000, Concurrency: 2, OutputBytes: 1000},
	}
}

func TestConformance(t *testing.T) {
	tooltest.Run(t, func(*testing.T) tooltest.Fixture {
		a := native.New(map[string]native.Func{"behave": tooltest.Behave},
			native.WithLookup("behave", tooltest.BehaveLookup), native.WithValidate("behave", tooltest.BehaveValidate))
		return tooltest.Fixture{Adapter: hosted{a}, Manifest: manifest()}
	})
}

// hosted runs an adapter under a watchdog, as executors do, and continues without functions that do not return.
type hosted struct{ *native.Adapter }

type ended struct {
	result tool.Result
	found  bool
	err    error
}

// ending is the owner of a run, and receives its result.
type ending chan ended

func (e ending) Abandoned(end func() error) { go func() { e <- ended{err: end()} }() }

func host(ctx context.Context, run func(context.Context) ended) ended {
	due, ok := ctx.Deadline()
	if !ok {
		due = time.Now().Add(time.Hour)
	}
	over := make(ending, 1)
	of := timer.NewWatchdog(ctx).Start(due, over)
	defer of.Stop()
	go func() {
		if e := run(of); !errors.Is(e.err, tool.ErrAbandoned) {
			over <- e
		}
	}()
	return <-over
}

func (h hosted) Execute(
	ctx context.Context, m *tool.Manifest, inv tool.Invocation, sink tool.Sink,
) (tool.Result, error) {
	e := host(ctx, func(ctx context.Context) (e ended) {
		e.result, e.err = h.Adapter.Execute(ctx, m, inv, sink)
		return e
	})
	return e.result, e.err
}

func (h hosted) ValidateCall(ctx context.Context, m *tool.Manifest, inv tool.Invocation) error {
	return host(ctx, func(ctx context.Context) ended { return ended{err: h.Adapter.ValidateCall(ctx, m, inv)} }).err
}

func (h hosted) Lookup(ctx context.Context, m *tool.Manifest, inv tool.Invocation) (tool.Result, bool, error) {
	e := host(ctx, func(ctx context.Context) (e ended) {
		e.result, e.found, e.err = h.Adapter.Lookup(ctx, m, inv)
		return e
	})
	return e.result, e.found, e.err
}

// one is an adapter with one function.
func one(f native.Func) hosted { return hosted{native.New(map[string]native.Func{"behave": f})} }

// A tool ends at its own limit, also if its call was admitted with a longer deadline. Without a watchdog it does not
// start, because nothing could abandon it.
func TestLimit(t *testing.T) {
	a, m := one(func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}), manifest()
	m.Limits.TimeoutMaxMS = 10
	_, err := a.Execute(t.Context(), m, tool.Invocation{}, &tooltest.Recorder{})
	if got := tool.ClassifyError(a, m, err); got.Code != envelope.CodeTimeout {
		t.Errorf("got %v from %v", got, err)
	}
	var start *tool.StartError
	if _, err := a.Adapter.Execute(t.Context(), m, tool.Invocation{}, nil); !errors.As(err, &start) {
		t.Errorf("without a watchdog: %v", err)
	}
}

func TestValidate(t *testing.T) {
	a := one(tooltest.Behave)
	for name, change := range map[string]func(*tool.Manifest){
		"not registered":       func(m *tool.Manifest) { m.Endpoint = native.Endpoint{Native: "other"} },
		"no lookup":            func(m *tool.Manifest) { m.Capability.Lookup = true },
		"of another transport": func(m *tool.Manifest) { m.Transport = process.Transport },
	} {
		m := manifest()
		change(m)
		if a.Validate(m) == nil {
			t.Errorf("%s: accepted", name)
		}
		_, err := a.Execute(t.Context(), m, tool.Invocation{}, &tooltest.Recorder{})
		var start *tool.StartError
		if !errors.As(err, &start) {
			t.Errorf("%s: Execute returned %v", name, err)
		}
	}
}

// TestStray checks the run of a function that ignores its context.
func TestStray(t *testing.T) {
	started, release, emitted := make(chan struct{}, 1), make(chan struct{}), make(chan error, 3)
	a := one(func(_ context.Context, _ tool.Invocation, sink tool.Sink) (tool.Result, error) {
		started <- struct{}{}
		<-release
		err := sink.Emit(context.Background(), envelope.ChunkData, jsontext.Value(`1`))
		emitted <- err
		return tool.Result{Output: jsontext.Value(`1`)}, nil
	})
	m, sink := manifest(), &tooltest.Recorder{}
	for range m.Limits.Concurrency {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-started; cancel() }()
		_, err := a.Execute(ctx, m, tool.Invocation{}, sink)
		if got := tool.ClassifyError(a, m, err); got.Code != envelope.CodeCancelled ||
			got.Details.Effect != envelope.EffectUnknown {
			t.Errorf("got %v from %v", got, err)
		}
	}
	_, err := a.Execute(t.Context(), m, tool.Invocation{}, sink)
	if got := tool.ClassifyError(a, m, err); got.Code != envelope.CodeUnavailable ||
		!strings.Contains(got.Cause, "ignored the end") {
		t.Errorf("with strays everywhere: %v, cause %q", got, got.Cause)
	}
	close(release)
	for range m.Limits.Concurrency {
		if err := <-emitted; err == nil {
			t.Error("a stray could still emit")
		}
	}
	if n := len(sink.All()); n > 0 {
		t.Errorf("%d chunks of strays", n)
	}
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		if _, err = a.Execute(t.Context(), m, tool.Invocation{}, sink); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the strays have returned and the tool still cannot start: %v", err)
		}
	}
}

// panicking is an error whose methods panic.
type panicking struct{}

func (panicking) Error() string { panic("no text") }

func TestJudge(t *testing.T) {
	tests := map[string]struct {
		f    native.Func
		want envelope.Code
		say  string
	}{
		"plain error": {
			func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
				return tool.Result{}, errors.New("disk full")
			},
			envelope.CodeToolFault, "disk full; the function returned an error",
		},
		"error of several lines": {
			func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
				return tool.Result{}, errors.New("no\x1b[31m room\non disk " + strings.Repeat("x", envelope.MaxMessage))
			},
			envelope.CodeToolFault, "no[31m room on disk xxx",
		},
		"error without a text": {
			func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
				return tool.Result{}, errors.New(" ")
			},
			envelope.CodeToolFault, "the tool ended without an answer; the function returned an error",
		},
		"own context": {
			func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
				return tool.Result{}, context.DeadlineExceeded
			},
			envelope.CodeToolFault, "deadline exceeded",
		},
		"nil as an error of ours": {
			func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
				var none *tool.Error
				return tool.Result{Output: jsontext.Value(`1`)}, none
			},
			envelope.CodeToolFault, "nil pointer",
		},
		"nil as a crash": {
			func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
				var none *tool.CrashError
				return tool.Result{Output: jsontext.Value(`1`)}, none
			},
			envelope.CodeToolFault, "nil pointer",
		},
		"an error that panics": {
			func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
				return tool.Result{}, panicking{}
			},
			envelope.CodeToolFault, "no text",
		},
		"ends its goroutine": {
			func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
				runtime.Goexit()
				return tool.Result{}, nil
			},
			envelope.CodeToolFault, "ended its goroutine",
		},
		"bad error name": {
			func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
				return tool.Result{}, &tool.Error{Code: "No Name"}
			},
			envelope.CodeToolProtocol, "",
		},
		"bad chunk": {
			func(ctx context.Context, _ tool.Invocation, sink tool.Sink) (tool.Result, error) {
				return tool.Result{Output: jsontext.Value(`1`)}, sink.Emit(ctx, envelope.ChunkData, jsontext.Value(`{`))
			},
			envelope.CodeToolProtocol, "",
		},
		"chunk that other languages read differently": {
			func(ctx context.Context, _ tool.Invocation, sink tool.Sink) (tool.Result, error) {
				return tool.Result{Output: jsontext.Value(`1`)},
					sink.Emit(ctx, envelope.ChunkData, jsontext.Value(`[9007199254740993]`))
			},
			envelope.CodeToolProtocol, "",
		},
		"chunks and output together": {
			func(ctx context.Context, _ tool.Invocation, sink tool.Sink) (tool.Result, error) {
				big := jsontext.Value(`"` + strings.Repeat("x", 600) + `"`)
				return tool.Result{Output: big}, sink.Emit(ctx, envelope.ChunkData, big)
			},
			envelope.CodeOutputLimit, "",
		},
		"an ended context of its own": {
			func(ctx context.Context, _ tool.Invocation, sink tool.Sink) (tool.Result, error) {
				own, cancel := context.WithCancel(ctx)
				cancel()
				return tool.Result{}, sink.Emit(own, envelope.ChunkData, jsontext.Value(`1`))
			},
			envelope.CodeToolFault, "canceled",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a, m := one(test.f), manifest()
			_, err := a.Execute(t.Context(), m, tool.Invocation{}, &tooltest.Recorder{})
			got := tool.ClassifyError(a, m, err)
			if got.Code != test.want || !strings.Contains(got.Message+"; "+got.Cause, test.say) {
				t.Errorf("got %v, cause %q", got, got.Cause)
			}
		})
	}
}

// TestStopped checks that the effect which a tool returns after its context has ended is kept.
func TestStopped(t *testing.T) {
	started := make(chan struct{})
	a := one(func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result, error) {
		close(started)
		<-ctx.Done()
		return tool.Result{}, &tool.Error{Code: "interrupted", Effect: envelope.EffectNone}
	})
	m := manifest()
	m.Class = call.SideEffectful
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	_, err := a.Execute(ctx, m, tool.Invocation{}, &tooltest.Recorder{})
	if got := tool.ClassifyError(a, m,
		err); got.Code != envelope.CodeCancelled || got.Details.Effect != envelope.EffectNone {
		t.Errorf("got %v, effect %s", got, got.Details.Effect)
	}
}

// TestStack checks that the error of a panic names its position, without paths of this machine.
func TestStack(t *testing.T) {
	a, m := one(func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) { panic("here") }), manifest()
	_, err := a.Execute(t.Context(), m, tool.Invocation{}, &tooltest.Recorder{})
	stderr := tool.ClassifyError(a, m, err).Details.Stderr
	if !strings.Contains(stderr, "TestStack") || !strings.Contains(stderr, "native_test.go:") ||
		strings.Contains(stderr, "/native/native_test.go") {
		t.Errorf("stderr %q", stderr)
	}
}
