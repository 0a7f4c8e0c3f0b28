package client_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
)

// A client logs each call at level INFO: tool, function, call id, status, duration and error code. At level DEBUG it
// logs names, types and sizes of the input's members, and at none a value.
func TestLogsTheOutcome(t *testing.T) {
	f := setup(t)
	c := f.serve(bustest.Describing("echo"))
	f.answering(*envelope.Failure("", envelope.NewError(envelope.CodeToolDisabled, ""),
		envelope.Provenance{AuditEventID: "gate.1", Final: true}, envelope.Metrics{}))
	var out bytes.Buffer
	c.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	const id = "0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a4d"
	said := client.Call{Tool: "echo", CallID: id, Input: jsontext.Value(`{"n":"personal"}`)}
	if _, err := c.Call(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	line := out.String()
	for _, want := range []string{
		"level=INFO", "tool_id=echo", "fn=run", "call_id=" + id, "status=terminal_error", "duration_ms=",
		"error.code=" + string(envelope.CodeToolDisabled),
	} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is missing in %s", want, line)
		}
	}
	if want := `level=DEBUG msg="tool call input" tool_id=echo fn=run call_id=` + id +
		` input="{n: string of 10 bytes}"`; !strings.Contains(line, want) {
		t.Errorf("%s is missing in %s", want, line)
	}
	if strings.Count(line, "\n") != 2 || strings.Contains(line, "personal") {
		t.Errorf("logged %s", line)
	}
}
