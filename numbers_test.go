package toolbus_test

import (
	"context"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// Integers beyond 2^53-1 are refused in inputs and outputs. As text they are exact.
func TestIntegersBeyond53Bits(t *testing.T) {
	const large = 9007199254740993
	tools := toolbus.NewToolset()
	must(t, tools, toolbus.Tool{ID: "number", Class: toolbus.Pure},
		func(_ context.Context, _ *toolbus.Run, n int64) (int64, error) { return n + large - 1, nil })
	must(t, tools, toolbus.Tool{ID: "text", Class: toolbus.Pure},
		func(_ context.Context, _ *toolbus.Run, digits string) (string, error) { return digits, nil })
	b := toolbustest.Start(t, tools)
	for _, c := range []struct {
		tool, input string
		code        envelope.Code
	}{
		{"number", "9007199254740993", envelope.CodeSchema},
		{"number", "1", envelope.CodeOutput},
		{"number", "-2", ""},
		{"text", `"9007199254740993"`, ""},
	} {
		r, err := b.Call(t.Context(), toolbus.Call{Tool: c.tool, Input: []byte(c.input), Retry: once})
		if toolbus.CodeOf(err) != c.code || c.tool == "text" && string(r.Output) != c.input {
			t.Errorf("%s %s: %+v, %v", c.tool, c.input, r, err)
		}
	}
}
