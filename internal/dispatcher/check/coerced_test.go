package check

import (
	"context"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

type coercing struct{ tool.Endpoint }

func (coercing) Coerces() bool { return true }

// A round that does not check the schema again goes on with the coerced input, all the same. Another function has
// another one.
func TestCoercedInEachRound(t *testing.T) {
	functions := map[string]*tool.Function{}
	for name, schema := range map[string]string{"one": `{"type":"integer"}`, "other": `{"type":"string"}`} {
		compiled, err := jsonschema.Compile("in", []byte(schema), nil)
		if err != nil {
			t.Fatal(err)
		}
		functions[name] = &tool.Function{Name: name, Request: compiled}
	}
	s := &Stages{now: time.Now, slow: slowTurns(), verdicts: flow.NewTTLMap[*verdict](maxVerdicts, printsTime)}
	c := &candidate{Request: &Request{
		In:   &call.IncomingRequest{Received: time.Now()},
		Tool: &tool.Manifest{Endpoint: coercing{}, Functions: functions},
		Req:  &envelope.Request{Input: jsontext.Value(`"5"`), Constraints: envelope.Constraints{TimeoutMS: 60_000}},
	}}
	for _, round := range [][2]string{{"one", `5`}, {"one", `5`}, {"other", `"5"`}, {"one", `5`}} {
		c.Req.Fn = round[0]
		for _, pass := range []func(*Stages, context.Context, *candidate) *envelope.Error{
			(*Stages).function, (*Stages).fetched, (*Stages).schema,
		} {
			if refusal := pass(s, t.Context(), c); refusal != nil {
				t.Fatalf("%s: refused by %v", round[0], refusal)
			}
		}
		if string(c.input) != round[1] {
			t.Errorf("%s: got %s, want %s", round[0], c.input, round[1])
		}
	}
}
