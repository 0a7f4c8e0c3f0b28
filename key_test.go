package toolbus_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// client connects a client of its own to a bus.
func client(t *testing.T, url string, o toolbus.ClientOptions) *toolbus.Client {
	t.Helper()
	conn, err := toolbus.Connect(t.Context(), url, toolbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	c, err := conn.Client(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// succeeds makes a call that must succeed.
func succeeds(t *testing.T, c *toolbus.Client, call toolbus.Call) *toolbus.Response {
	t.Helper()
	r, err := toolbus.Outcome(c.Call(t.Context(), call))
	if err != nil || r.Status != toolbus.Success {
		t.Fatalf("%+v, %v", r, err)
	}
	return r
}

// TestEqualCallsHaveEffects writes A, B and A again to a file. Each call without a key has its effect; with stable keys
// the third one replays the first one, and the file holds B.
func TestEqualCallsHaveEffects(t *testing.T) {
	for name, c := range map[string]struct {
		stable bool
		want   string
	}{"fresh keys": {false, "A"}, "stable keys": {true, "B"}} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "note.txt")
			tools := toolbus.NewToolset()
			must(t, tools, toolbus.Tool{ID: "write", Class: toolbus.Idempotent},
				func(_ context.Context, _ *toolbus.Run, text string) (string, error) {
					return text, os.WriteFile(file, []byte(text), 0o600)
				})
			b := toolbustest.Start(t, tools)
			caller := client(t, b.URL, toolbus.ClientOptions{StableKeys: c.stable})
			keys := map[string]bool{}
			for i, text := range []string{`"A"`, `"B"`, `"A"`} {
				r := succeeds(t, caller, toolbus.Call{Tool: "write", Input: jsontext.Value(text)})
				if want := c.stable && i == 2; r.Provenance.Replayed != want {
					t.Errorf("call %d: replayed is %t", i, !want)
				}
				keys[r.Key] = true
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != c.want {
				t.Errorf("the file holds %q, %v", got, err)
			}
			if want := 3; len(keys) != want && !c.stable || keys[""] {
				t.Errorf("the keys are %v", keys)
			}
		})
	}
}

// TestConcurrentEqualCalls holds that two equal calls are two: each returns only once both have started.
func TestConcurrentEqualCalls(t *testing.T) {
	tools := toolbus.NewToolset()
	h := hold(t, tools, toolbus.Tool{ID: "hold", Class: toolbus.Pure})
	b := toolbustest.Start(t, tools)
	one, other := called(t, b, toolbus.Call{Tool: "hold"}), called(t, b, toolbus.Call{Tool: "hold"})
	for n := range 2 {
		select {
		case <-h.started:
		case <-time.After(time.Minute):
			t.Fatalf("%d calls have started", n)
		}
	}
	close(h.release)
	<-h.ended
	<-h.ended
	a, z := <-one, <-other
	if a == nil || z == nil || a.Status != toolbus.Success || z.Status != toolbus.Success || a.Key == z.Key {
		t.Errorf("%+v and %+v", a, z)
	}
}

// TestCrashBetweenSendAndAnswer has a caller leave when its call is accepted, and another process make the same call.
// With a key that it has stored, or a stable one, that is the same call; with a fresh one it is a second call.
func TestCrashBetweenSendAndAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		stable bool
		key    string
		runs   int
	}{
		"stored key": {key: "stored-before-the-call", runs: 1},
		"stable key": {stable: true, runs: 1},
		"fresh key":  {runs: 2},
	} {
		t.Run(name, func(t *testing.T) {
			tools := toolbus.NewToolset()
			started, release := make(chan struct{}, 3), make(chan struct{})
			must(t, tools, toolbus.Tool{ID: "pay", Class: toolbus.SideEffectful},
				func(_ context.Context, _ *toolbus.Run, _ struct{}) (string, error) {
					started <- struct{}{}
					<-release
					return "paid", nil
				})
			b := toolbustest.Start(t, tools)
			o := toolbus.ClientOptions{StableKeys: c.stable}
			call := toolbus.Call{Tool: "pay", Key: c.key, Timeout: time.Minute}
			ctx, crash := context.WithCancel(t.Context())
			call.OnAccepted = func(toolbus.Accepted) { crash() }
			if r, err := toolbus.Outcome(client(t, b.URL, o).Call(ctx, call)); !errors.Is(err, context.Canceled) {
				t.Fatalf("%+v, %v", r, err)
			}
			<-started
			call.OnAccepted = func(toolbus.Accepted) { close(release) }
			succeeds(t, client(t, b.URL, o), call)
			if runs := 1 + len(started); runs != c.runs {
				t.Errorf("the tool ran %d times, want %d", runs, c.runs)
			}
		})
	}
}

// TestStableKey holds that the client computes the key that the function returns.
func TestStableKey(t *testing.T) {
	tools := toolbus.NewToolset()
	must(t, tools, toolbus.Tool{ID: "greet", Class: toolbus.Pure},
		func(context.Context, *toolbus.Run, struct{}) (string, error) { return "hello", nil })
	b := toolbustest.Start(t, tools)
	c := client(t, b.URL, toolbus.ClientOptions{StableKeys: true})
	if _, err := toolbus.StableKey(toolbus.Call{Tool: "greet"}); err == nil {
		t.Error("a key without a function")
	}
	for _, call := range []toolbus.Call{{}, {Version: "*", Input: jsontext.Value(` { }`)}, {Version: "^0.1.0"}} {
		call.Tool = "greet"
		r := succeeds(t, c, call)
		call.Function = "run"
		if key, err := toolbus.StableKey(call); err != nil || key != r.Key || !strings.HasPrefix(key, "sha256-") {
			t.Errorf("%+v: the client has key %q, and not %q, %v", call, r.Key, key, err)
		}
	}
	if r := succeeds(t, c, toolbus.Call{Tool: "greet", Key: "a-key-of-the-caller"}); r.Key != "a-key-of-the-caller" {
		t.Errorf("the key is %q", r.Key)
	}
}
