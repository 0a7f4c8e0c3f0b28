package process

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process/protocol"
)

// A request is one line for every input, and calls Done when a large input has been read.
func TestReadRequest(t *testing.T) {
	long := strings.Repeat("x", worthStreaming)
	for name, c := range map[string]struct {
		input string
		told  bool
	}{
		"small":            {`{"a":1}`, false},
		"large":            {`{ "a":"` + long + `"}`, true},
		"large with lines": {"{\r\n\"a\":\n\"" + long + `"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			told := 0
			r, err := readRequest(protocol.OpExecute, tool.Invocation{
				Fn: `"input":null`, Input: jsontext.Value(c.input), Done: func() { told++ }, IdempotencyKey: "key",
			})
			if err != nil {
				t.Fatal(err)
			}
			line, err := io.ReadAll(r)
			var got protocol.Request
			if err := json.Unmarshal(line, &got); err != nil {
				t.Fatal(err)
			}
			want := jsontext.Value(c.input).Clone()
			if err := errors.Join(want.Compact(), got.Input.Compact()); err != nil || string(got.Input) != string(want) {
				t.Errorf("%v: the input is %.40s, want %.40s", err, got.Input, want)
			}
			if err != nil || strings.Contains(string(line), "\n") || got.Fn != `"input":null` || got.IdempotencyKey != "key" {
				t.Errorf("%v: got %.200s", err, line)
			}
			if (told == 1) != c.told {
				t.Errorf("told %d times", told)
			}
		})
	}
}
