package toolbus_test

import (
	"context"
	"fmt"

	"github.com/seed-018f16cc/toolbus"
)

func ExampleWithValidate() {
	errEmpty := &toolbus.ToolError{Name: "empty", Class: "I-REQ", Message: "no text", Fix: "send a text"}
	about := toolbus.Tool{ID: "print", Class: toolbus.SideEffectful, Errors: []*toolbus.ToolError{errEmpty}}
	check := func(_ context.Context, _ *toolbus.Run, text string) error {
		if text == "" {
			return errEmpty
		}
		return nil
	}
	tools := toolbus.NewToolset()
	err := toolbus.Add(tools, about, func(context.Context, *toolbus.Run, string) (bool, error) { return true, nil },
		toolbus.WithValidate(check))
	fmt.Println(tools.Len(), err, check(context.Background(), &toolbus.Run{}, ""))
	// Output: 1 <nil> empty: no text
}
