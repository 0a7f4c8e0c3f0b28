package envelope

import (
	"fmt"
	"strings"
	"testing"
)

func TestUnknownNames(t *testing.T) {
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprintf("function_%05d", i)
	}
	for _, c := range []struct {
		e            *Error
		code         Code
		message, fix string
	}{
		{NoTool("web.fech", []string{"fs.write", "web.fetch"}), CodeToolUnknown,
			`there is no tool "web.fech"; did you mean "web.fetch"?`, "toolbus tools list"},
		{NoTool("nosuch", []string{"fs.write"}), CodeToolUnknown, `there is no tool "nosuch"`, "toolbus tools list"},
		{NoTool("nosuch", nil), CodeToolUnknown, `there is no tool "nosuch"`, "toolbus tools list"},
		{NoFunction("t", "", []string{"b", "a"}), CodeFnUnknown, `the request names no function, and tool "t" has 2`,
			"functions of the tool: a, b; for example `toolbus call t a`"},
		{NoFunction("t", "serach", []string{"list", "search"}), CodeFnUnknown,
			`tool "t" has no function "serach"; did you mean "search"?`, ": list, search"},
		{NoFunction("t", "x", []string{"list", "search"}), CodeFnUnknown, `tool "t" has no function "x"`, ": list, search"},
		{NoFunction("t", "nothing", many), CodeFnUnknown, `tool "t" has no function "nothing"`, "function_00019, …"},
	} {
		if c.e.Code != c.code || c.e.Message != c.message || !strings.Contains(c.e.Fix, c.fix) {
			t.Errorf("%s (%s), want %s (%s)", c.e, c.e.Fix, c.message, c.fix)
		}
	}
	if e := NoFunction("t", strings.Repeat("x", 1<<20), many); len(e.Message) > MaxMessage || len(e.Fix) > MaxMessage {
		t.Errorf("%d and %d bytes", len(e.Message), len(e.Fix))
	}
}
