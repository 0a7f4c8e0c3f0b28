package rpc

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// A question that panics is refused, and the others are answered.
func TestQuestionThatPanics(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	endpoints := []Endpoint{
		{Op: "why", Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) { panic("boom") }},
		{Op: "result", Handle: func(_ context.Context, from call.Sender, body []byte) (any, *envelope.Error) {
			return from.Tenant + from.Actor + string(body), nil
		}},
	}
	_, refusal := endpoints[0].unharmed(t.Context(), logger, call.Sender{Tenant: "t", Actor: "a"}, nil)
	if refusal == nil || refusal.Code != envelope.CodeInternal {
		t.Errorf("refused with %v", refusal)
	}
	if text := log.String(); !strings.Contains(text, "boom") || !strings.Contains(text, "endpoint_test.go") ||
		!strings.Contains(text, "why") {
		t.Errorf("logged %s", text)
	}
	if answer, refusal := endpoints[1].unharmed(t.Context(), logger, call.Sender{Tenant: "t", Actor: "a"},
		[]byte("b")); answer != "tab" || refusal != nil {
		t.Errorf("%v, %v", answer, refusal)
	}
}
