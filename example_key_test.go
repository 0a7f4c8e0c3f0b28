package toolbus_test

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"

	"github.com/seed-018f16cc/toolbus"
)

// The error of a call has its key. The same call with that key is the next attempt, and not a second call.
func ExampleKeyOf() {
	errClosed := &toolbus.ToolError{
		Name: "closed", Class: "R-UPSTREAM", Message: "the shop is closed", Fix: "call again", Effect: toolbus.EffectNone,
	}
	var asked atomic.Int32
	tools := toolbus.NewToolset()
	about := toolbus.Tool{ID: "order", Class: toolbus.SideEffectful, Errors: []*toolbus.ToolError{errClosed}}
	err := toolbus.Add(tools, about, func(context.Context, *toolbus.Run, struct{}) (string, error) {
		if asked.Add(1) == 1 {
			return "", errClosed
		}
		return "ordered", nil
	})
	if err != nil {
		log.Fatal(err)
	}
	client, stop := exampleClient(tools)
	defer stop()

	call := toolbus.Call{Tool: "order"}
	_, err = toolbus.Invoke[string](context.Background(), client, call, struct{}{})
	fmt.Println(err)
	call.Key = toolbus.KeyOf(err)
	for range 2 { // the second one replays the success
		said, err := toolbus.Invoke[string](context.Background(), client, call, struct{}{})
		fmt.Println(said, err)
	}
	fmt.Println("asked", asked.Load(), "times")
	// Output:
	// R-UPSTREAM-CLOSED: the shop is closed
	// ordered <nil>
	// ordered <nil>
	// asked 2 times
}

// A stable key depends on what the call says, and on nothing else: a program finds it again after a crash.
func ExampleStableKey() {
	call := toolbus.Call{Tool: "web.fetch", Function: "fetch", Input: []byte(`{"url": "https://example.com"}`)}
	key, err := toolbus.StableKey(call)
	fmt.Println(key, err)
	// Output:
	// sha256-d854c2d60fc9a9b57d5892a3295fbc87e84602149222c4f0ac7b20f9cb4afe29 <nil>
}
