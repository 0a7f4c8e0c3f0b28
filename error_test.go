package toolbus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// ends is a bus with a tool whose calls end as their input says.
func ends(t *testing.T) *toolbustest.Bus {
	t.Helper()
	tools := toolbus.NewToolset()
	about := toolbus.Tool{ID: "end", Class: toolbus.Pure, Errors: []*toolbus.ToolError{errNotFound, errBusy}}
	must(t, tools, about, func(_ context.Context, _ *toolbus.Run, how string) (string, error) {
		switch how {
		case "retryable":
			busy := errBusy.Because("full")
			busy.RetryAfter, busy.Details, busy.Effect = time.Hour, map[string]int{"queue": 3}, toolbus.EffectNone
			return "", busy
		case "terminal":
			return "", errNotFound
		}
		return how, nil
	})
	return toolbustest.Start(t, tools)
}

// A call returns a response or an error: a response if it succeeded, and an Error with the status for each other end.
func TestNilErrorMeansSuccess(t *testing.T) {
	b := ends(t)
	for input, want := range map[string]toolbus.Status{
		`"well"`: toolbus.Success, `"retryable"`: toolbus.RetryableError, `"terminal"`: toolbus.TerminalError,
		`7`: toolbus.InvalidRequest,
	} {
		var ref string
		call := toolbus.Call{
			Tool: "end", Input: jsontext.Value(input), Retry: once,
			OnAccepted: func(a toolbus.Accepted) { ref = a.Ref },
		}
		resp, err := b.Call(t.Context(), call)
		isEnd(t, input, resp, err, want)
		if (toolbus.KeyOf(err) == "") != (err == nil) {
			t.Errorf("%s: key %q of %v", input, toolbus.KeyOf(err), err)
		}
		if ref != "" { // an outcome may come before the acceptance
			resp, err = b.Result(t.Context(), toolbus.CallRef{Ref: ref})
			isEnd(t, input+" by its reference", resp, err, want)
		}
		items := 0
		for item, err := range b.Stream(t.Context(), call) {
			items++
			isEnd(t, input+" as a stream", item.Response, err, want)
		}
		if items != 1 {
			t.Errorf("%s: the stream has %d items", input, items)
		}
		_, err = toolbus.Invoke[string](t.Context(), b.Client, call, jsontext.Value(input))
		if (err == nil) != (want == toolbus.Success) {
			t.Errorf("%s: Invoke returns %v", input, err)
		}
	}
	if resp, err := b.Call(t.Context(), toolbus.Call{Tool: "unknown"}); resp != nil ||
		toolbus.CodeOf(err) != envelope.CodeToolUnknown {
		t.Errorf("an unknown tool: %+v, %v", resp, err)
	}
}

// isEnd checks what a call returned that ended with the status want.
func isEnd(t *testing.T, what string, resp *toolbus.Response, err error, want toolbus.Status) {
	t.Helper()
	failed, ok := errors.AsType[*toolbus.Error](err)
	switch {
	case want == toolbus.Success:
		if err != nil || resp == nil || resp.Status != want {
			t.Errorf("%s: %+v, %v", what, resp, err)
		}
	case !ok || resp != nil:
		t.Errorf("%s: %+v, %v", what, resp, err)
	case failed.Status() != want || !failed.Final() || failed.Pending() ||
		failed.Retryable() != (want == toolbus.RetryableError) || failed.Response().Error != failed.Reason():
		t.Errorf("%s: %+v of %+v", what, failed.Reason(), failed.Response())
	}
	if outcome, err := toolbus.Outcome(resp, err); err != nil || outcome.Status != want {
		t.Errorf("%s: as an outcome %+v, %v", what, outcome, err)
	}
}

// Result says of a call that runs that it has no outcome yet, and of no other call.
func TestPending(t *testing.T) {
	tools := toolbus.NewToolset()
	h := hold(t, tools, toolbus.Tool{ID: "hold", Class: toolbus.Pure})
	b := toolbustest.Start(t, tools)
	accepted := make(chan toolbus.CallRef, 1)
	answer := called(t, b, toolbus.Call{
		Tool: "hold", OnAccepted: func(a toolbus.Accepted) { accepted <- toolbus.CallRef{Ref: a.Ref} },
	})
	<-h.started
	ref := <-accepted
	resp, err := b.Result(t.Context(), ref)
	failed, ok := errors.AsType[*toolbus.Error](err)
	if resp != nil || !ok || !failed.Pending() || failed.Final() || failed.Status() != "" || failed.Response() != nil ||
		failed.Effect() != toolbus.EffectUnknown || failed.Fix() == "" {
		t.Errorf("while it runs: %+v, %v", resp, err)
	}
	h.release <- struct{}{}
	<-answer
	if resp, err := b.Result(t.Context(), ref); err != nil || string(resp.Output) != `"done"` {
		t.Errorf("after its end: %+v, %v", resp, err)
	}
	_, err = b.Result(t.Context(), toolbus.CallRef{Ref: "hold.00000000000000000000000000000000"})
	if failed, ok := errors.AsType[*toolbus.Error](err); !ok || failed.Pending() {
		t.Errorf("a call that nobody made: %v", err)
	}
}

// The error of a call has the failure that the tool declared, with what it said of this one.
func TestUnwrapIsTheErrorOfTheTool(t *testing.T) {
	b := ends(t)
	_, err := b.Call(t.Context(), toolbus.Call{Tool: "end", Input: []byte(`"retryable"`), Retry: once})
	said, ok := errors.AsType[*toolbus.ToolError](fmt.Errorf("wrapped: %w", err))
	if !ok || !errors.Is(err, errBusy) || errors.Is(err, errNotFound) {
		t.Fatalf("%v", err)
	}
	if said.Name != "busy" || said.Class != envelope.ClassUpstream || said.Message != "full" || said.Fix != errBusy.Fix ||
		said.RetryAfter != time.Hour || said.Effect != toolbus.EffectNone || fmt.Sprint(said.Details) != "map[queue:3]" {
		t.Errorf("%+v", said)
	}
	_, err = b.Call(t.Context(), toolbus.Call{Tool: "end", Input: []byte(`"terminal"`)})
	if said, ok := errors.AsType[*toolbus.ToolError](err); !ok || said.HTTPStatus != errNotFound.HTTPStatus {
		t.Errorf("%+v", said)
	}
	if _, err = b.Call(t.Context(), toolbus.Call{Tool: "end", Input: []byte(`7`)}); errors.Unwrap(err) != nil {
		t.Errorf("the tool did not run, and declared %v", errors.Unwrap(err))
	}
}

// Errors that are not about a call have no code and no key, and say nothing of an effect.
func TestErrorsWithoutCall(t *testing.T) {
	for _, c := range []struct {
		err    error
		effect toolbus.Effect
	}{
		{nil, toolbus.EffectApplied}, {errors.New("of the caller"), toolbus.EffectUnknown},
		{context.Canceled, toolbus.EffectUnknown},
	} {
		if got := toolbus.EffectOf(c.err); got != c.effect {
			t.Errorf("%v: effect %s", c.err, got)
		}
		if code, key := toolbus.CodeOf(c.err), toolbus.KeyOf(c.err); code != "" || key != "" {
			t.Errorf("%v: code %s, key %s", c.err, code, key)
		}
	}
}

// Add refuses a lookup that does not take and return what the function does.
func TestWithLookupRefuses(t *testing.T) {
	type other struct{}
	for name, test := range map[string]struct {
		lookup toolbus.AddOption
		want   string
	}{
		"nil": {toolbus.WithLookup[person, string](nil), "the lookup is nil"},
		"input": {toolbus.WithLookup(func(context.Context, *toolbus.Run, other) (string, error) { return "", nil }),
			"the lookup takes toolbus_test.other and returns string, the function takes toolbus_test.person"},
		"output": {toolbus.WithLookup(func(context.Context, *toolbus.Run, person) (int, error) { return 0, nil }),
			"the lookup takes toolbus_test.person and returns int, the function takes toolbus_test.person and returns string"},
	} {
		err := toolbus.Add(toolbus.NewToolset(), toolbus.Tool{ID: "x", Class: toolbus.SideEffectful}, hello, test.lookup)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	fits := toolbus.WithLookup(hello)
	if err := toolbus.Add(toolbus.NewToolset(), toolbus.Tool{ID: "x", Class: toolbus.SideEffectful}, hello,
		fits); err != nil {
		t.Error(err)
	}
}
