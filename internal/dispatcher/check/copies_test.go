package check

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// The input of a request that is sent again is not checked again. Other inputs, and the same one of another sender,
// are.
func TestCopiesAreCheckedOnce(t *testing.T) {
	schema, err := jsonschema.Compile("in", []byte(`{"properties":{"n":{"items":{"enum":[1]}}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	fn := &tool.Function{Request: schema}
	s := &Stages{
		now: time.Now, slow: slowTurns(), verdicts: flow.NewTTLMap[*verdict](maxVerdicts, printsTime),
	}
	request := func(actor, input string) *candidate {
		return &candidate{
			Request: &Request{
				In:  &call.IncomingRequest{From: call.Sender{Tenant: "t", Actor: actor}, Received: time.Now()},
				Req: &envelope.Request{}, verdict: verdict{of: fn}, Tool: &tool.Manifest{},
			},
			fn: fn, input: jsontext.Value(input),
		}
	}
	checked := func(actor, input string) *envelope.Error { return s.schema(t.Context(), request(actor, input)) }
	first := checked("a", `{"n":[2]}`)
	if first == nil || first.Code != envelope.CodeSchema {
		t.Fatalf("refused by %v", first)
	}
	first.WithEffect(envelope.EffectUnknown) // as the answer does
	kept := s.verdicts.Get(keyOfSlow(request("a", `{"n":[2]}`)), time.Now())
	if kept == nil || kept.refusal.Details.Effect == envelope.EffectUnknown {
		t.Fatalf("kept: %+v", kept)
	}
	kept.refusal.Message = "kept"
	if refusal := checked("a", `{"n":[2]}`); refusal.Message != "kept" || refusal == kept.refusal {
		t.Errorf("a copy was checked again: %v", refusal)
	}
	for _, other := range [][2]string{{"b", `{"n":[2]}`}, {"a", `{"n":[3]}`}} {
		if refusal := checked(other[0], other[1]); refusal == nil || refusal.Message == "kept" {
			t.Errorf("%v: %v", other, refusal)
		}
	}
	if refusal := checked("a", `{"n":[1]}`); refusal != nil {
		t.Errorf("refused by %v", refusal)
	}
}
