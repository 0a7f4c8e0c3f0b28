package envelope

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// A question is read from the details of an error with its code, and only if it can be answered.
func TestQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		code    Code
		details string
		want    InputQuestion
	}{
		"whole": {
			CodeInputRequired, `{"input_requests":{"a":{}},"input_state":"x.y","server_state":"s"}`,
			InputQuestion{Requests: jsontext.Value(`{"a":{}}`), State: "x.y", ServerState: "s"},
		},
		"no state of the server": {
			CodeInputRequired, `{"input_requests":{},"input_state":"x.y"}`,
			InputQuestion{Requests: jsontext.Value(`{}`), State: "x.y"},
		},
		"another code":     {CodeToolChanged, `{"input_requests":{},"input_state":"x.y"}`, InputQuestion{}},
		"nothing":          {CodeInputRequired, ``, InputQuestion{}},
		"no state":         {CodeInputRequired, `{"input_requests":{}}`, InputQuestion{}},
		"no requests":      {CodeInputRequired, `{"input_state":"x.y"}`, InputQuestion{}},
		"mistyped state":   {CodeInputRequired, `{"input_requests":{},"input_state":7}`, InputQuestion{}},
		"mistyped request": {CodeInputRequired, `{"input_requests":[],"input_state":"x.y"}`, InputQuestion{}},
	} {
		q, ok := NewError(c.code, "").WithDetails(jsontext.Value(c.details)).Question()
		if ok != (c.want.State != "") {
			t.Errorf("%s: ok is %t", name, ok)
		}
		if ok && (string(q.Requests) != string(c.want.Requests) || q.State != c.want.State ||
			q.ServerState != c.want.ServerState) {
			t.Errorf("%s: %+v", name, q)
		}
	}
	if _, ok := (*Error)(nil).Question(); ok {
		t.Error("a success has a question")
	}
}
