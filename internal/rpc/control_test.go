package rpc

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/operation"
)

// A newer client may ask for more than this dispatcher knows; only another form is refused, and by name.
func TestQuestionsOfOtherBuilds(t *testing.T) {
	var asked envelope.CallRef
	e := NewEndpoint(operation.Why, func(_ context.Context, _ call.Sender, q envelope.CallRef) (
		a envelope.WhyResponse, _ *envelope.Error) {
		asked = q
		return a, nil
	})
	for body, says := range map[string]string{
		`{"form":2,"ref":"echo.id","what_comes_next":{"a":1}}`: "",
		`{"ref":"echo.id"}`:          "Toolbus 0.1 wrote it",
		`{"form":1,"ref":"echo.id"}`: "Toolbus 0.1 wrote it",
		`{"form":3,"ref":"echo.id"}`: "reads up to 2",
		`{"form":"2"}`:               "form",
		`nonsense`:                   "invalid",
	} {
		asked = envelope.CallRef{}
		_, refusal := e.Handle(t.Context(), call.Sender{Tenant: "t", Actor: "a"}, []byte(body))
		switch {
		case says == "" && (refusal != nil || asked.Ref != "echo.id"):
			t.Errorf("%s: %+v, %v", body, asked, refusal)
		case says != "" && (refusal == nil || refusal.Code != envelope.CodeMalformed ||
			!strings.Contains(refusal.Cause, says)):
			t.Errorf("%s: %v, want %q", body, refusal, says)
		}
	}
}

// What a newer build says of a joiner that leaves is understood as far as it is known, and never dropped without a
// word.
func TestLeavesOfOtherBuilds(t *testing.T) {
	sent, err := format.Marshal(format.Message, envelope.JoinerLeft{Tool: "echo", ID: "id", Attempt: 2, CallID: "c"})
	if err != nil {
		t.Fatal(err)
	}
	more := strings.Replace(string(sent), `"attempt"`, `"new":true,"attempt"`, 1)
	var out bytes.Buffer
	c := &Control{Log: slog.New(slog.NewTextHandler(&out, nil))}
	if l, ok := c.leave([]byte(more)); !ok || l.Attempt != 2 || l.CallID != "c" || out.Len() > 0 {
		t.Errorf("%s is read as %+v; %s", more, l, &out)
	}
	for range 2 {
		if _, ok := c.leave([]byte(strings.Replace(more, `"form":2`, `"form":3`, 1))); ok {
			t.Error("a newer form is read")
		}
	}
	if strings.Count(out.String(), "\n") != 1 {
		t.Errorf("logged %q", &out)
	}
}
