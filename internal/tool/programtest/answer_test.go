package programtest

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/program"
)

const output = `{"type":"output","output":{},"side_effects":[],"warnings":[]}` + "\n"

func TestParseAnswer(t *testing.T) {
	t.Parallel()
	chunk := `{"type":"chunk","data":1}` + "\n"
	answer, err := parseAnswer([]byte(chunk + output))
	if err != nil || len(answer.Data("chunk")) != 1 || answer.Terminal().Type != "output" {
		t.Errorf("%+v, %v", answer, err)
	}
	for name, stdout := range map[string]string{
		"nothing":            "",
		"no terminal line":   chunk,
		"two terminal lines": output + `{"type":"absent"}` + "\n",
		"chunk too late":     output + chunk,
		"no newline":         strings.TrimSpace(output),
		"no JSON":            "hello\n" + output,
		"unknown member":     `{"type":"absent","why":"not"}` + "\n",
		"too long":           `{"type":"chunk","data":"` + strings.Repeat("x", program.MaxLine) + `"}` + "\n" + output,
	} {
		if _, err := parseAnswer([]byte(stdout)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
