package toolbus_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// A check sees the input and the caller before the function does, and refuses the call by an error of the tool.
func TestValidateRefuses(t *testing.T) {
	var runs atomic.Int32
	errForeign := &toolbus.ToolError{Name: "foreign", Class: "A-AUTH", Message: "not of this case", Fix: "name the case"}
	type note struct {
		Case string `json:"case"`
	}
	tools := toolbus.NewToolset()
	about := toolbus.Tool{
		ID: "note", Class: toolbus.SideEffectful, Errors: []*toolbus.ToolError{errForeign}, Context: []string{"scope"},
	}
	err := toolbus.Add(tools, about, func(context.Context, *toolbus.Run, note) (string, error) {
		runs.Add(1)
		return "noted", nil
	}, toolbus.WithValidate(func(_ context.Context, run *toolbus.Run, in note) error {
		caller, err := run.Caller()
		if err == nil && caller.Scope["case_id"] != in.Case {
			return errForeign.Because("case %s", in.Case)
		}
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	call := toolbus.Call{Tool: "note", Context: toolbus.RequestContext{Scope: map[string]string{"case_id": "7"}}}
	_, err = toolbus.Invoke[string](t.Context(), bus.Client, call, note{"8"})
	failed, _ := errors.AsType[*toolbus.Error](err)
	if failed == nil || failed.Code() != "A-AUTH-FOREIGN" || failed.Effect() != toolbus.EffectNone || runs.Load() != 0 {
		t.Errorf("%v, %d runs", err, runs.Load())
	}
	got, err := toolbus.Invoke[string](t.Context(), bus.Client, call, note{"7"})
	if err != nil || got != "noted" || runs.Load() != 1 {
		t.Errorf("%q, %v, %d runs", got, err, runs.Load())
	}
}

// A check that does not fit its function is refused when it is added.
func TestValidateFits(t *testing.T) {
	f := func(context.Context, *toolbus.Run, string) (string, error) { return "", nil }
	for want, option := range map[string]toolbus.AddOption{
		"the check is nil": toolbus.WithValidate[string](nil),
		"the check takes int, the function takes string": toolbus.WithValidate(
			func(context.Context, *toolbus.Run, int) error { return nil }),
	} {
		err := toolbus.Add(toolbus.NewToolset(), toolbus.Tool{ID: "a", Class: toolbus.Pure}, f, option)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
