package toolbustest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// tools are made as the program under test makes them.
func tools() (*toolbus.Toolset, error) {
	tools := toolbus.NewToolset()
	err := toolbus.Add(tools, toolbus.Tool{ID: "shout", Class: toolbus.Pure},
		func(_ context.Context, _ *toolbus.Run, in string) (string, error) { return strings.ToUpper(in), nil })
	return tools, err
}

// TestShout is what a test with a bus looks like.
func TestShout(t *testing.T) {
	tools, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	got, err := toolbus.Invoke[string](t.Context(), bus.Client, toolbus.Call{Tool: "shout"}, "hello")
	if err != nil || got != "HELLO" {
		t.Errorf("%q, %v", got, err)
	}
}

// Start is called from a test: this is TestShout of the same file.
func ExampleStart() {
	_ = func(t *testing.T) {
		tools, err := tools()
		if err != nil {
			t.Fatal(err)
		}
		bus := toolbustest.Start(t, tools)
		got, err := toolbus.Invoke[string](t.Context(), bus.Client, toolbus.Call{Tool: "shout"}, "hello")
		if err != nil || got != "HELLO" {
			t.Errorf("%q, %v", got, err)
		}
	}
}
