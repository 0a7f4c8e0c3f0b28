package mcp_test

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
)

// BenchmarkDoor says what the door adds to a call: the same one without it is beside it.
func BenchmarkDoor(b *testing.B) {
	f := start(b)
	s := open(b, mcp.New(b.Context(), f.Client, mcp.Options{}))
	median := func(b *testing.B, call func() error) {
		b.Helper()
		var took []time.Duration
		for b.Loop() {
			began := time.Now()
			if err := call(); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs/median")
	}
	b.Run("none", func(b *testing.B) {
		median(b, func() error {
			_, err := toolbus.Outcome(f.Call(b.Context(), toolbus.Call{Tool: "echo", Input: []byte(`{"text":"a"}`),
				Key: rand.Text()}))
			return err
		})
	})
	for _, protocol := range protocols {
		c := over(b, s, protocol, nil)
		b.Run(protocol, func(b *testing.B) {
			median(b, func() error {
				_, err := c.CallTool(
					b.Context(),
					&sdk.CallToolParams{Name: "echo", Arguments: json.RawMessage(`{"text":"a"}`)},
				)
				return err
			})
		})
	}
}
