//go:build linux

package mcp_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
)

// BenchmarkCall compares a call through the adapter with a direct call to the same server.
func BenchmarkCall(b *testing.B) {
	input := `{"text":"hello"}`
	b.Run("direct", func(b *testing.B) {
		client := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
		s := played(b, "behave")
		over := &sdk.CommandTransport{Command: exec.Command(s.Command, s.Args...)}
		session, err := client.Connect(context.Background(), over, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer session.Close()
		for b.Loop() {
			if _, err := session.CallTool(b.Context(), &sdk.CallToolParams{
				Name: "plain", Arguments: jsontext.Value(input),
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("adapter", func(b *testing.B) {
		a := mcp.New(mcp.Options{})
		defer a.Rest()
		m := manifest(b, played(b, "behave"), mcp.Endpoint{Tool: "plain"})
		m.Class = call.Pure
		sink := &tooltest.Recorder{}
		for b.Loop() {
			if _, err := a.Execute(b.Context(), m, invocationOf(input), sink); err != nil {
				b.Fatal(err)
			}
		}
	})
}
