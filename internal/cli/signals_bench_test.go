package cli_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
)

// BenchmarkSignals measures what metrics and the log of a process cost a call: its run, and its outcome.
func BenchmarkSignals(b *testing.B) {
	m, err := telemetry.NewMeter(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())), nil)
	if err != nil {
		b.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	env, end := cli.Env{Stderr: null}.Unblocked()
	defer end()
	hooks := telemetry.NewLog(env.Logger(slog.LevelInfo), 1).Trace(m.Trace(call.Trace{}))
	const id = "0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a01"
	s := call.State{
		Pinned: call.Pinned{
			ID: strings.Repeat("a", 32), Tool: "bank.pay", Version: "1.0.0", Fn: "run", Pool: "default", Tenant: "acme",
		},
		Attempts: []call.Attempt{{
			N: 1, Owner: call.Owner{CallID: id, Trace: id},
			Decision: &call.Decision{Status: envelope.Success, By: call.ByExecutor},
		}},
	}
	run := call.TraceEvent{At: call.TraceRun, State: s, Attempt: 1}
	ended := call.TraceEvent{At: call.TraceAfterDecide, State: s, Attempt: 1, Won: true}
	b.ReportAllocs()
	for b.Loop() {
		_, _, end := hooks.Begin(b.Context(), run)
		end(call.TraceEvent{})
		hooks.Event(b.Context(), ended)
	}
}
