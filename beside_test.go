package toolbus_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// A caller has its answer in time, also where the input takes longer to check.
func TestSlowPreflight(t *testing.T) {
	branch := func(name string) string { return `{"properties":{"a":{"$ref":"#"}},"required":["` + name + `"]}` }
	slow := jsontext.Value(`{"anyOf":[` + branch("x") + `,` + branch("y") + `,` + branch("z") + `]}`)
	f := setup(t)
	c := f.serve(bus.Endpoint{Op: subjects.OpDescribe,
		Handle: func(context.Context, question.Sender, []byte) (any, *envelope.Error) {
			return question.Description{NowUnixMS: time.Now().UnixMilli(), Tools: []question.Tool{{
				ToolID: "echo", Version: "1.0.0", TimeoutDefaultMS: 1,
				Functions: map[string]question.Function{"run": {Request: slow, Response: slow}},
			}}}, nil
		}})
	if _, err := c.Tool(t.Context(), "echo"); err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat(`{"a":`, 40) + `"` + strings.Repeat("x", 100_000) + `"` + strings.Repeat(`}`, 40)
	for _, timeout := range []time.Duration{0, time.Millisecond} { // the tool's own is as short
		unsent(t, c, toolbus.Call{Tool: "echo", Input: jsontext.Value(deep), Timeout: timeout}, 0)
	}
	if r, err := c.Call(t.Context(), toolbus.Call{Tool: "echo", Timeout: -1}); err != nil ||
		r.Error.Code != envelope.CodeSchema {
		t.Errorf("a negative timeout: %+v, %v", r, err)
	}
}
