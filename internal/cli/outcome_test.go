package cli

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// The command prints the message of a failed tool, and where the whole result is.
func TestPrintsWhereTheResultIs(t *testing.T) {
	const where = "result of the tool: 14 bytes; --json prints it, as error.details.tool_result"
	small := envelope.NewError("P-PRECOND-TOOL_ERROR", "line 1\nline 2").WithToolResult(jsontext.Value(`{"content":[]}`))
	apart := envelope.NewError("P-PRECOND-TOOL_ERROR", "line 1\nline 2")
	apart.Details.ToolResultRef = &envelope.PayloadRef{Bytes: 14}
	none := envelope.NewError("P-PRECOND-TOOL_ERROR", "line 1\nline 2")
	for _, e := range []*envelope.Error{small, apart, none} {
		var out strings.Builder
		PrintError(&out, e)
		if !strings.HasPrefix(out.String(), "P-PRECOND-TOOL_ERROR: line 1 line 2\n") ||
			strings.Contains(out.String(), where) != (e != none) {
			t.Error(out.String())
		}
	}
}

// The command prints what a tool asks, and how to answer.
func TestPrintsQuestion(t *testing.T) {
	e := envelope.NewError(envelope.CodeInputRequired, "the tool asks: Sure?").
		WithDetails(jsontext.Value(`{"input_requests":{"q":{"method":"elicitation/create"}},"input_state":"x.y"}`))
	var out strings.Builder
	PrintError(&out, e)
	for _, want := range []string{
		"the tool asks: Sure?\n", `  asks: {"q":{"method":"elicitation/create"}}`, "with --answer-to x.y --answer JSON\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q: %s", want, out.String())
		}
	}
}
