package toolbustest_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type person struct {
	Name string `json:"name"`
}

func greeter(t testing.TB) *toolbus.Toolset {
	t.Helper()
	tools := toolbus.NewToolset()
	err := toolbus.Add(tools, toolbus.Tool{ID: "greet", Class: toolbus.Pure},
		func(_ context.Context, _ *toolbus.Run, who person) (string, error) { return "hello " + who.Name, nil })
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// Buses of tests do not know of each other.
func TestStart(t *testing.T) {
	for range 2 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			b := toolbustest.Start(t, greeter(t))
			resp, err := toolbus.Outcome(b.Call(t.Context(), toolbus.Call{Tool: "greet", Input: []byte(`{"name":"Ada"}`)}))
			if err != nil || string(resp.Output) != `"hello Ada"` || resp.Provenance.Attempt != 1 {
				t.Errorf("%v, %v", resp, err)
			}
		})
	}
}

// A test that ends with a call in hand ends the call, and soon.
func TestStartEndsWhatIsLeft(t *testing.T) {
	tools, running := toolbus.NewToolset(), make(chan struct{})
	err := toolbus.Add(tools, toolbus.Tool{ID: "hang", Class: toolbus.Pure, MaxTimeout: 10 * time.Minute},
		func(ctx context.Context, _ *toolbus.Run, _ struct{}) (string, error) {
			close(running)
			<-ctx.Done()
			return "", ctx.Err()
		})
	if err != nil {
		t.Fatal(err)
	}
	one := &scope{TB: t}
	b := toolbustest.Start(one, tools)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = toolbus.Outcome(b.Call(ctx, toolbus.Call{Tool: "hang", Timeout: 5 * time.Minute}))
	}()
	<-running
	began := time.Now()
	one.end()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	stop()
	<-ended
}

// A test that fails while the bus starts, or with calls in hand, leaves nothing behind either.
func TestStartOfWhatCannotRun(t *testing.T) {
	tools := greeter(t)
	if err := tools.AddFolder("no such folder"); err == nil {
		t.Fatal("a folder that is none was added")
	}
	failed := &scope{TB: t}
	done := make(chan struct{})
	go func() { // Fatalf ends it
		defer close(done)
		toolbustest.Start(failed, tools)
	}()
	<-done
	failed.end()
	if !failed.fatal {
		t.Error("a bus with a tool that could not be added was started")
	}
}

// BenchmarkStart is from nothing to a bus that serves.
func BenchmarkStart(b *testing.B) {
	tools := greeter(b)
	for b.Loop() {
		one := &scope{TB: b}
		toolbustest.Start(one, tools)
		b.StopTimer()
		one.end()
		b.StartTimer()
	}
}

// scope is a test that ends before its test does.
type scope struct {
	testing.TB
	undo  []func()
	fatal bool
}

func (s *scope) Cleanup(f func()) { s.undo = append(s.undo, f) }

func (s *scope) Fatalf(string, ...any) {
	s.fatal = true
	runtime.Goexit()
}

func (s *scope) end() {
	for _, f := range slices.Backward(s.undo) {
		f()
	}
}
