package toolbus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

var (
	errNotFound = &toolbus.ToolError{
		Name: "no_such_thing", Class: "P-PRECOND", HTTPStatus: 404,
		Message: "there is no such thing", Fix: "list the things first",
	}
	errBusy = &toolbus.ToolError{Name: "busy", Class: "R-UPSTREAM", Message: "the shop is closed", Fix: "call again later"}
)

// once is for calls whose first outcome is wanted.
var once = &envelope.RetryPolicy{MaxAttempts: 1}

// must adds a function.
func must[In, Out any](
	t testing.TB, tools *toolbus.Toolset, about toolbus.Tool, f func(context.Context, *toolbus.Run, In) (Out, error),
) {
	t.Helper()
	if err := toolbus.Add(tools, about, f); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsOfTools(t *testing.T) {
	tools := toolbus.NewToolset()
	undeclared := &toolbus.ToolError{Name: "undeclared", Message: "of a new build"}
	must(t, tools, toolbus.Tool{ID: "fail", Class: toolbus.Pure, Errors: []*toolbus.ToolError{errNotFound, errBusy}},
		func(_ context.Context, run *toolbus.Run, how string) (string, error) {
			switch how {
			case "declared":
				return "", errNotFound
			case "because":
				return "", fmt.Errorf("wrapped: %w", errNotFound.Because("no %q", "unicorn"))
			case "busy":
				later := errBusy.Because("full")
				later.RetryAfter, later.Details, later.Effect = time.Hour, map[string]int{"queue": 3}, toolbus.EffectNone
				return "", later
			case "undeclared":
				return "", undeclared
			case "plain":
				return "", errors.New("disk full")
			case "panic":
				panic("a bug")
			}
			return "", &toolbus.ToolError{Name: "no_such_thing", Details: make(chan int)}
		})
	b := toolbustest.Start(t, tools)
	for how, want := range map[string]struct {
		code, message, cause string
		status               envelope.Status
		http                 int
	}{
		"declared":    {"P-PRECOND-NO_SUCH_THING", "there is no such thing", "", envelope.TerminalError, 404},
		"because":     {"P-PRECOND-NO_SUCH_THING", `no "unicorn"`, "", envelope.TerminalError, 404},
		"busy":        {"R-UPSTREAM-BUSY", "full", "", envelope.RetryableError, 0},
		"undeclared":  {"S-TOOL-UNDECLARED", "of a new build", "", envelope.RetryableError, 0},
		"plain":       {"S-TOOL-001", "disk full", "the function returned an error", envelope.RetryableError, 0},
		"panic":       {"S-TOOL-001", "", "panic: a bug", envelope.RetryableError, 0},
		"bad details": {"S-TOOL-001", "details", "", envelope.RetryableError, 0},
	} {
		resp, err := b.Call(t.Context(), toolbus.Call{Tool: "fail", Input: []byte(`"` + how + `"`), Retry: once})
		failed, ok := errors.AsType[*toolbus.Error](err)
		if !ok || resp != nil || toolbus.CodeOf(err) != failed.Code() || toolbus.EffectOf(err) != failed.Effect() {
			t.Errorf("%s: %v, %v", how, resp, err)
			continue
		}
		if resp = failed.Response(); errors.As(err,
			new(*toolbus.ToolError)) != slices.Contains([]string{"declared", "because", "busy", "undeclared"}, how) {
			t.Errorf("%s: the error that the tool declared is not in %v", how, err)
		}
		e := resp.Error
		if resp.Status != want.status || string(e.Code) != want.code || !strings.Contains(e.Message, want.message) ||
			!strings.Contains(e.Cause, want.cause) || want.http != 0 && e.Details.HTTPStatus != want.http {
			t.Errorf("%s: it is %s %+v", how, resp.Status, e)
		}
		if text := failed.Error(); !strings.Contains(text, want.message) || !strings.Contains(text, want.cause) {
			t.Errorf("%s: as an error it is %s", how, text)
		}
		if how == "busy" && (e.Details.RetryAfterMS != time.Hour.Milliseconds() || !strings.Contains(fmt.Sprint(e), "full")) {
			t.Errorf("%s: %+v", how, e.Details)
		}
	}
	if _, err := toolbus.Invoke[string](t.Context(), b.Client, toolbus.Call{Tool: "fail"}, 7); err == nil ||
		!strings.Contains(err.Error(), "/input") {
		t.Errorf("it does not say what is to be corrected: %v", err)
	}
	if !errors.Is(fmt.Errorf("x: %w", errNotFound.Because("y")), errNotFound) || errors.Is(errBusy, errNotFound) {
		t.Error("errors.Is goes by something else than the name")
	}
}

type steps struct {
	N int `json:"n"`
}

// A function that does not take an input that its schema allows has not run: the call has no effect.
func TestUndecodedInput(t *testing.T) {
	tools, ran := toolbus.NewToolset(), false
	about := toolbus.Tool{
		ID: "step", Class: toolbus.SideEffectful, AcceptRerun: true, Request: []byte(`{"type": "object"}`),
	}
	must(t, tools, about, func(context.Context, *toolbus.Run, steps) (string, error) { ran = true; return "", nil })
	b := toolbustest.Start(t, tools)
	_, err := b.Call(t.Context(), toolbus.Call{Tool: "step", Input: []byte(`{"n": 1, "m": 2}`)})
	if toolbus.CodeOf(err) != "I-REQ-SCHEMA" || toolbus.EffectOf(err) != toolbus.EffectNone || ran {
		t.Errorf("%v, effect %s, ran %v", err, toolbus.EffectOf(err), ran)
	}
	if failed, ok := errors.AsType[*toolbus.Error](err); !ok || !strings.Contains(failed.Error(), "decode the input: ") ||
		!strings.Contains(failed.Fix(), "tell the tool's owner") ||
		!strings.Contains(failed.Fix(), "`PROGRAM --manifest DIR` writes the manifest of a Go program") {
		t.Errorf("%v", err)
	}
}

// A test can call a function by itself.
func TestZeroRun(t *testing.T) {
	if out, err := Greet(t.Context(), &toolbus.Run{}, Person{"Ada"}); err != nil || out.Text != "Hello Ada" {
		t.Errorf("%+v, %v", out, err)
	}
}

// What a run is told, and what it tells.
func TestRun(t *testing.T) {
	tools := toolbus.NewToolset()
	runs := make(chan *toolbus.Run, 10)
	about := toolbus.Tool{
		ID: "count.up", Version: "1.2.3", Class: toolbus.Idempotent, Streaming: true, DryRun: true, Function: "to",
		Context: []string{"role_id"},
		Timeout: 20 * time.Second,
	}
	must(t, tools, about, func(ctx context.Context, run *toolbus.Run, in steps) (steps, error) {
		if by, ok := ctx.Deadline(); !ok || by.Sub(run.Deadline).Abs() > time.Second {
			t.Errorf("the context ends at %v, the call at %v", by, run.Deadline)
		}
		runs <- run
		if run.DryRun {
			return steps{-in.N}, nil
		}
		for i := range in.N {
			if err := errors.Join(run.Emit(i), run.Progress(steps{i}), run.Log("one")); err != nil {
				return steps{}, err
			}
		}
		run.SideEffect(toolbus.SideEffect{Kind: "count", Target: "fingers", Bytes: int64(in.N)})
		run.Warn("%d are few", in.N)
		return in, nil
	})
	about.Function, about.FunctionDescription = "down", "counts the other way"
	must(t, tools, about, func(context.Context, *toolbus.Run, struct{}) (any, error) { return nil, nil })
	b := toolbustest.Start(t, tools)
	allowAs(t, b, "tester", "default")
	var chunks []string
	resp, err := toolbus.Outcome(b.Call(t.Context(), toolbus.Call{
		Tool: "count.up", Function: "to", Input: []byte(`{"n":2.0}`), Context: envelope.RequestContext{RoleID: "tester"},
		OnChunk: func(c envelope.Chunk) error { chunks = append(chunks, string(c.Kind)+" "+string(c.Data)); return nil },
	}))
	if err != nil || resp.Status != envelope.Success || string(resp.Output) != `{"n":2}` ||
		!slices.Equal(resp.Warnings, []string{"2 are few"}) || len(resp.SideEffects) != 1 ||
		string(resp.SideEffects[0]) != `{"kind":"count","target":"fingers","bytes":2}` {
		t.Fatalf("%+v, %v", resp, err)
	}
	want := []string{"data 0", `progress {"n":0}`, `log "one"`, "data 1", `progress {"n":1}`, `log "one"`}
	if diff := cmp.Diff(want, chunks); diff != "" {
		t.Error(diff)
	}
	run := <-runs
	caller, err := run.Caller()
	if run.CallID != resp.CallID || run.Attempt != 1 || run.DryRun || len(run.IdempotencyKey) != 32 ||
		caller.RoleID != "tester" || err != nil || time.Until(run.Deadline) < 10*time.Second {
		t.Errorf("it was told %+v", run)
	}
	resp, err = toolbus.Outcome(b.Call(t.Context(), toolbus.Call{Tool: "count.up", Function: "to",
		Input: []byte(`{"n":3}`), DryRun: true}))
	if err != nil || string(resp.Output) != `{"n":-3}` || !(<-runs).DryRun {
		t.Errorf("dry: %+v, %v", resp, err)
	}
	resp, err = toolbus.Outcome(b.Call(t.Context(), toolbus.Call{Tool: "count.up", Function: "down"}))
	if err != nil || string(resp.Output) != "null" {
		t.Errorf("the other function: %+v, %v", resp, err)
	}
	for input, at := range map[string]string{`{"n":3,"m":4}`: "/input/m", `{"n":1e300}`: "/input/n"} {
		resp, err = toolbus.Outcome(b.Call(t.Context(), toolbus.Call{Tool: "count.up", Function: "to", Input: []byte(input)}))
		if err != nil || resp.Status != envelope.InvalidRequest || resp.Error.Details.Violations[0].Pointer != at {
			t.Errorf("%s: %+v, %v", input, resp, err)
		}
	}
}
