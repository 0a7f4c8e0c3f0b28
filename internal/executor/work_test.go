package executor

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// What a tool gets are the two members as they stand, however the request was written.
func TestParse(t *testing.T) {
	for body, want := range map[string][2]string{
		`{"request":{"input":{"a":1},"context":{"b":[2]}}}`:                                   {`{"a":1}`, `{"b":[2]}`},
		"{\"request\":\n { \"context\" : {} ,\t\"x\":{\"input\":0}, \"input\" :\"}\\\"\" } }": {`"}\""`, `{}`},
		`{"request":{"in":1,"inputs":2}}`:                                                     {"", ""},
		`{"request":{}}`:                                                                      {"", ""},
		`{"earlier":[],"request":{"input":null,"context":1.5}}`:                               {"null", "1.5"},
		`{"request":{"input":1},"later":{"input":2}}`:                                         {"1", ""},
	} {
		_, w, err := parse(call.Entry{Body: []byte(body)})
		if err != nil || string(w.input) != want[0] || string(w.context) != want[1] {
			t.Errorf("%s: %q, %q, %v", body, w.input, w.context, err)
		}
	}
	for _, body := range []string{
		"", "{", "null", `{"request":}`, `{"request":[]}`, `{"request":{"input":1}`, `{"request":{"input":1,}}`, `{"x":1}`,
		`{"request":{"input":1}}}`, `{"request":{"input"}}`, `{"request":"input"}`,
	} {
		if body, w, err := parse(call.Entry{Body: []byte(body)}); err == nil {
			t.Errorf("%+v, %+v", body, w)
		}
	}
}

// It finds what the library finds, and never fails on what the library takes.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"input":{"a":"\"}"},"context":{"b":[1,2.5e3,true,null,"x"]},"n":-1}`))
	f.Add([]byte(" {\n\"input\" : [ ] }"))
	f.Fuzz(func(t *testing.T, request []byte) {
		_, w, err := parse(call.Entry{Body: append(append([]byte(`{"request":`), request...), '}')})
		var want struct {
			Input   jsontext.Value `json:"input"`
			Context jsontext.Value `json:"context"`
		}
		if failed := json.Unmarshal(request, &want); failed != nil || err != nil {
			return
		}
		if !bytes.Equal(w.input, want.Input) || !bytes.Equal(w.context, want.Context) {
			t.Errorf("%q, %q; want %q, %q", w.input, w.context, want.Input, want.Context)
		}
	})
}
