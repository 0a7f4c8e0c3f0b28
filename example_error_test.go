package toolbus_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// CodeOf reads the code of any error, also of one that wraps the error of a call.
func ExampleCodeOf() {
	client, stop := exampleClient(greeter())
	defer stop()

	_, err := client.Call(context.Background(), toolbus.Call{Tool: "greed", Input: []byte(`{"name":"Ada"}`)})
	err = fmt.Errorf("greet Ada: %w", err)
	switch code := toolbus.CodeOf(err); code {
	case "":
		log.Fatal(err) // it is nil, or not about a call
	case envelope.CodeToolUnknown:
		fmt.Println("ask for another tool:", code)
	default:
		fmt.Println(err)
	}
	// Output: ask for another tool: I-REQ-TOOL_UNKNOWN
}

// EffectOf says after any error whether the tool has done what it was called for.
func ExampleEffectOf() {
	errEmpty := &toolbus.ToolError{
		Name: "empty", Class: "P-PRECOND", Message: "the account is empty", Fix: "pay money in", Effect: toolbus.EffectNone,
	}
	tools := toolbus.NewToolset()
	about := toolbus.Tool{ID: "pay", Class: toolbus.SideEffectful, Errors: []*toolbus.ToolError{errEmpty}}
	err := toolbus.Add(tools, about, func(_ context.Context, _ *toolbus.Run, amount int) (string, error) {
		switch {
		case amount > 100:
			return "", errEmpty
		case amount < 0:
			return "", errors.New("connection lost") // a fault of the tool: it cannot say what was done
		}
		return "paid", nil
	})
	if err != nil {
		log.Fatal(err)
	}
	client, stop := exampleClient(tools)
	defer stop()

	for _, amount := range []int{7, 1000, -1} {
		_, err := toolbus.Invoke[string](context.Background(), client, toolbus.Call{Tool: "pay"}, amount)
		fmt.Println(amount, toolbus.EffectOf(err))
	}
	// Output:
	// 7 applied
	// 1000 none
	// -1 unknown
}

// Outcome is for programs that show every end of a call: the error of a call is its response.
func ExampleOutcome() {
	client, stop := exampleClient(greeter())
	defer stop()

	for _, input := range []string{`{"name":"Ada"}`, `{}`} {
		call := toolbus.Call{Tool: "greet", Input: []byte(input)}
		resp, err := toolbus.Outcome(client.Call(context.Background(), call))
		if err != nil {
			log.Fatal(err) // the call could not be sent, or was given up
		}
		fmt.Println(resp.Status, resp.Provenance.Final)
	}
	// Output:
	// success true
	// invalid_request true
}

// NewError makes the error of a refusal. A test makes errors with it that a bus returns rarely.
func ExampleNewError() {
	full := toolbus.NewError(envelope.NewError(envelope.CodeQueue, "").WithRetryAfter(2*time.Second), nil)
	fmt.Println(full.Code(), full.Retryable(), full.RetryAfter())
	// Output: R-CAP-QUEUE true 2s
}
