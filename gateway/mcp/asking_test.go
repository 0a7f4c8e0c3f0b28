package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// A client is asked only what it has declared that it can answer, and only in a protocol that has such results.
func TestAble(t *testing.T) {
	const form, asks = `{"elicitation":{"form":{}}}`, `{"q":{"method":"elicitation/create","params":{}}}`
	for name, c := range map[string]struct {
		protocol, declares, sends, asked string
		want                             bool
	}{
		"elicitation": {modern, `{"elicitation":{"form":{}},"extensions":{"x/y":{}}}`, form, asks, true},
		"all": {modern, `{"elicitation":{},"sampling":{"tools":{}},"roots":{}}`,
			`{"elicitation":{},"roots":{},"sampling":{"tools":{}}}`,
			`{"a":{"method":"sampling/createMessage"},"b":{"method":"roots/list"},"c":{"method":"elicitation/create"}}`, true},
		"nothing is asked": {modern, `{}`, `{}`, `{}`, true},
		"one of two":       {modern, form, form, `{"a":{"method":"elicitation/create"},"b":{"method":"roots/list"}}`, false},
		"none":             {modern, `null`, `{}`, asks, false},
		"no object":        {modern, `{"elicitation":true}`, `{}`, asks, false},
		"unknown":          {modern, form, form, `{"a":{"method":"x"}}`, false},
		"no request":       {modern, form, form, `{"a":7}`, false},
		"older":            {"2025-11-25", form, `null`, asks, false},
	} {
		var declared any
		if err := json.Unmarshal([]byte(c.declares), &declared); err != nil {
			t.Fatal(err)
		}
		able := ableTo(c.protocol, map[string]any{sdk.MetaKeyClientCapabilities: declared})
		if got := string(encoded(able)); got != c.sends || canAnswer(able, jsontext.Value(c.asked)) != c.want {
			t.Errorf("%s: %s, answers %t", name, got, !c.want)
		}
	}
}

// An answer has a key of its own, whatever key its request has, and the same one if it is sent again.
func TestAnswerKey(t *testing.T) {
	key := func(given, state, responses string) string {
		a := &asked{tool: &Definition{Tool: "x"}, call: toolbus.Call{Input: jsontext.Value(`{}`)}}
		a.call.Context.MCPInput = &envelope.MCPInput{State: state, Responses: jsontext.Value(responses)}
		return a.answerKey(given)
	}
	first := key("a key of the client", "x.1", `{"q":{"action":"accept"}}`)
	if first == "a key of the client" || first != key("a key of the client", "x.1", ` {"q":{"action":"accept"}}`) {
		t.Errorf("the key is %s", first)
	}
	for name, other := range map[string]string{
		"another key":    key("", "x.1", `{"q":{"action":"accept"}}`),
		"another state":  key("a key of the client", "x.2", `{"q":{"action":"accept"}}`),
		"another answer": key("a key of the client", "x.1", `{"q":{"action":"decline"}}`),
	} {
		if other == first || !strings.HasPrefix(other, "mcp-") {
			t.Errorf("%s: %s", name, other)
		}
	}
	required := &asked{tool: &Definition{Tool: "x", keyRequired: true}}
	required.call.Context.MCPInput = &envelope.MCPInput{State: "x.1"}
	if got := required.answerKey(""); got != "" {
		t.Errorf("of a tool whose clients choose the key: %s", got)
	}
}

// A client that cannot answer gets the questions as text, for its model.
func TestQuestionInWords(t *testing.T) {
	e := envelope.NewError(envelope.CodeInputRequired, "the tool asks: Sure?").WithEffect(envelope.EffectNone).
		WithDetails(jsontext.Value(`{"input_requests":{"q":{"method":"elicitation/create"}},"input_state":"x.1"}`))
	d := &Definition{Tool: "x", Name: "x", class: toolbus.Idempotent}
	res, err := d.result(envelope.Failure("", e, envelope.Provenance{Final: true}, envelope.Metrics{}), nil, modern, false)
	if err != nil || !res.isError || len(res.content) != 2 {
		t.Fatalf("%v, %+v", err, res)
	}
	const says = "the tool asks: Sure?\nNothing was done.\nWhat to do: put all that it needs into the arguments, " +
		"or use another tool."
	asks := block(`It asks: {"q":{"method":"elicitation/create"}}`)
	if string(res.content[0]) != string(block(says)) || string(res.content[1]) != string(asks) {
		t.Errorf("%s", res.content)
	}
}
