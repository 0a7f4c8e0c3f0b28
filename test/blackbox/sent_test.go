package blackbox

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
)

// Whatever is wrong with a call of a Go program, a dispatcher refuses it, and the refusal is on record under the id
// that the answer names. It names the places that are to be corrected.
func TestRefusalsAreOnRecord(t *testing.T) {
	t.Parallel()
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(nil)}})
	d.dispatcher()
	c := d.clientOf("agent://wrong")
	if _, err := c.Tool(t.Context(), "echo"); err != nil {
		t.Fatal(err)
	}
	unknown := clientlib.Call{Tool: "ecco", Input: []byte(`"` + strings.Repeat("x", envelope.MaxInline) + `"`)}
	if r := mustCall(t, c, unknown); r.Error.Code != envelope.CodeToolUnknown || r.Provenance.AuditEventID != "" {
		t.Errorf("a large input that no executor may read: %+v, %+v", r.Error, r.Provenance)
	}
	told := map[string]envelope.Code{} // by id of the record
	for name, test := range wrongCalls() {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		test.call.Tool = cmp.Or(test.call.Tool, "echo")
		r, err := c.Call(ctx, test.call)
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var at []string
		for _, v := range r.Error.Details.Violations {
			at = append(at, v.Pointer)
		}
		p := r.Provenance
		if r.Error.Code != test.code || test.at != nil && !slices.Equal(at, test.at) || r.Error.Fix == "" || !p.Final ||
			r.Error.Details.Effect != envelope.EffectNone || p.AuditEventID == "" || len(p.PolicyApplied) > 0 {
			t.Errorf("%s: %+v at %q, %+v", name, r.Error, at, p)
		}
		told[p.AuditEventID] = r.Error.Code
	}
	js := reader.Streams(d.srv.JetStream(t))
	for r, err := range reader.Replay(t.Context(), js, reader.Filter{Event: audit.ToolDenied}) {
		if err != nil {
			t.Fatal(err)
		}
		if told[r.EventID] != r.Code || r.Actor != "agent://wrong" {
			t.Errorf("on record is %+v", r)
		}
		delete(told, r.EventID)
	}
	if len(told) > 0 {
		t.Errorf("not on record: %v", told)
	}
}

type wrongCall struct {
	call clientlib.Call
	code envelope.Code
	at   []string
}

func wrongCalls() map[string]wrongCall {
	const bad = envelope.CodeSchema
	timeout := []string{"/constraints/timeout_ms"}
	json := func(text string) clientlib.Call { return clientlib.Call{Input: jsontext.Value(text)} }
	many := slices.Repeat([]string{strings.Repeat("é", 2000)}, 65)
	return map[string]wrongCall{
		"short key":    {clientlib.Call{Key: "short"}, bad, []string{"/constraints/idempotency_key"}},
		"timeout":      {clientlib.Call{Timeout: time.Hour}, bad, timeout},
		"no timeout":   {clientlib.Call{Timeout: 400 * time.Microsecond}, bad, timeout},
		"past timeout": {clientlib.Call{Timeout: -time.Second}, bad, timeout},
		"key scope":    {clientlib.Call{KeyScope: "tribe"}, bad, []string{"/constraints/idempotency_scope"}},
		"two at once": {clientlib.Call{Key: "short", Priority: "urgent"}, bad,
			[]string{"/constraints/idempotency_key", "/constraints/priority"}},
		"call id": {clientlib.Call{CallID: "mine"}, bad, []string{"/call_id"}},
		"evidence": {clientlib.Call{Context: envelope.RequestContext{Evidence: many}}, bad,
			[]string{"/context/evidence"}},
		"retry policy": {clientlib.Call{Retry: &envelope.RetryPolicy{MaxAttempts: -1}}, bad,
			[]string{"/constraints/retry_policy/max_attempts"}},
		"tool":            {clientlib.Call{Tool: "ecco"}, envelope.CodeToolUnknown, nil},
		"no name":         {clientlib.Call{Tool: "Ecco!"}, bad, []string{"/tool_id"}},
		"function":        {clientlib.Call{Function: "sing"}, envelope.CodeFnUnknown, nil},
		"version":         {clientlib.Call{Version: "^9"}, envelope.CodeVersion, nil},
		"input":           {json(`[]`), bad, []string{"/input"}},
		"number":          {json(`{"n":9007199254740993}`), bad, []string{"/input/n"}},
		"name twice":      {json(`{"n":1,"n":2}`), envelope.CodeMalformed, []string{"/input/n"}},
		"lone surrogate":  {json(`{"n":"\ud800"}`), envelope.CodeMalformed, []string{"/input/n"}},
		"nested":          {json(strings.Repeat(`[`, 70) + strings.Repeat(`]`, 70)), envelope.CodeLimit, nil},
		"large and wrong": {json(`["` + strings.Repeat("x", envelope.MaxInline) + `"]`), bad, []string{"/input"}},
		"large, two names": {json(`{"n":1,"n":"` + strings.Repeat("x", envelope.MaxInline) + `"}`), envelope.CodeMalformed,
			[]string{"/input/n"}},
	}
}
