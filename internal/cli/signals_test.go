package cli_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// Spans that a collector does not take, and lines that nobody reads, are counted.
func TestLossIsCounted(t *testing.T) {
	_, write := unread(t)
	env, end := cli.Env{Stderr: write}.Unblocked()
	defer end()
	var flags cli.SignalFlags
	set, said := pflag.NewFlagSet("", pflag.ContinueOnError), &buffer{}
	flags.Flags(set)
	if err := set.Parse([]string{
		"--http-listen", "127.0.0.1:0", "--otlp-endpoint", "http://127.0.0.1:1/v1/traces",
	}); err != nil {
		t.Fatal(err)
	}
	o := toolbus.Options{Logger: slog.New(slog.NewTextHandler(said, nil))}
	signals, err := flags.Open(t.Context(), "test", env, &o)
	if err != nil {
		t.Fatal(err)
	}
	spans := o.TracerProvider.(*sdktrace.TracerProvider)
	_, span := spans.Tracer("").Start(t.Context(), "x")
	span.End()
	if err := spans.ForceFlush(t.Context()); err == nil {
		t.Error("nobody took the span")
	}
	for range 2 {
		fmt.Fprintln(env.Stderr, strings.Repeat("x", 1<<21)) // more than may wait
	}
	r, err := http.Get(signals.URL() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`toolbus_signal_loss_count_total{signal="span"} 1`, `toolbus_signal_loss_count_total{signal="line"} 2`,
	} {
		if !strings.Contains(string(text), want+"\n") {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	signals.End(t.Context())
	if !strings.Contains(said.String(), "spans=1\n") {
		t.Error(said)
	}
}
