package toolbustest_test

import (
	"context"
	"fmt"
	"log"
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

// TestShout in the same file is how a test uses Start. Start takes a benchmark as well.
func ExampleStart() {
	tools, err := tools()
	if err != nil {
		log.Fatal(err)
	}
	said := make(map[string]bool)
	took := testing.Benchmark(func(b *testing.B) {
		bus := toolbustest.Start(b, tools)
		for b.Loop() {
			got, err := toolbus.Invoke[string](b.Context(), bus.Client, toolbus.Call{Tool: "shout"}, "hello")
			if err != nil {
				b.Fatal(err)
			}
			said[got] = true
		}
	})
	fmt.Println(said, took.N > 0)
	// Output: map[HELLO:true] true
}
