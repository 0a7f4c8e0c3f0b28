package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
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
		PrintError(&out, e, "play/x")
		if !strings.HasPrefix(out.String(), "P-PRECOND-TOOL_ERROR: line 1 line 2\n") ||
			strings.Contains(out.String(), where) != (e != none) {
			t.Error(out.String())
		}
	}
}

// Only what may end otherwise when it is asked again says so.
func TestSaysWhatToAskAgain(t *testing.T) {
	says := func(e *envelope.Error, p envelope.Provenance) string {
		return Summary(envelope.Failure("id", e, p, envelope.Metrics{}), "")
	}
	again := func(code envelope.Code, p envelope.Provenance) bool {
		return strings.Contains(says(envelope.NewError(code, ""), p), "ask again with the same key")
	}
	locked := envelope.NewError(envelope.CodeLocked, "").WithEffect(envelope.EffectApplied)
	got := says(locked, envelope.Provenance{})
	if strings.Contains(got, "ask again") || !strings.Contains(got, "NOT FINAL") {
		t.Errorf("beside a fix not to repeat the call: %s", got)
	}
	got = says(envelope.NewError(envelope.CodeExpired, ""), envelope.Provenance{})
	if !strings.Contains(got, "NOT FINAL: take a new credential, then ask again") {
		t.Errorf("with an expired credential: %s", got)
	}
	for code, want := range map[envelope.Code]bool{
		envelope.CodeTimeout: true, envelope.CodeOpen: true, envelope.CodeCancelled: true, envelope.CodeExpired: true,
		envelope.CodeRunState: false, envelope.CodeRunUnknown: false, envelope.CodePolicyVersion: false,
		envelope.CodeLogDamaged: false, envelope.CodePayloadMissing: false, envelope.CodeToolInLane: false,
		envelope.CodeRevoked: false,
	} {
		if again(code, envelope.Provenance{}) != want {
			t.Errorf("%s: want %t", code, want)
		}
		if again(code, envelope.Provenance{Final: true, Attempt: 1}) {
			t.Errorf("%s: an outcome is not final", code)
		}
	}
}

// The command prints what a tool asks, and how to answer.
func TestPrintsQuestion(t *testing.T) {
	e := envelope.NewError(envelope.CodeInputRequired, "the tool asks: Sure?").
		WithDetails(jsontext.Value(`{"input_requests":{"q":{"method":"elicitation/create"}},"input_state":"x.y"}`))
	var out strings.Builder
	PrintError(&out, e, "play/x")
	for _, want := range []string{
		"the tool asks: Sure?\n", `  details.input_requests: {"q":{"method":"elicitation/create"}}`,
		"with --answer-to x.y --answer JSON\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q: %s", want, out.String())
		}
	}
}

// The command prints each detail that the fix of a code names, and those that the tool gave.
func TestPrintsWhatFixesName(t *testing.T) {
	named := regexp.MustCompile(`details\.[a-z_]+`)
	for _, row := range envelope.Codes() {
		e := envelope.NewError(row.Code, "").WithDetails(jsontext.Value(`{"reason":"dns","upstream_status":503,` +
			`"input_requests":{},"input_state":"x"}`))
		e.Details.RetryAfterMS = 7
		e.Details.Violations = []jsonschema.Violation{{Pointer: "/input/x", Message: "is missing"}}
		var out strings.Builder
		PrintError(&out, e, "play/x")
		got, _, _ := strings.Cut(out.String(), "  fix: ")
		got += strings.ReplaceAll(out.String(), e.Fix, "")
		for _, name := range append(named.FindAllString(e.Fix, -1), "details.violations:\n    /input/x: is missing") {
			if !strings.Contains(got, name) {
				t.Errorf("%s: %q is not in\n%s", row.Code, name, out.String())
			}
		}
		const ofTool = "  details.reason: dns\n  details.upstream_status: 503\n"
		if row.Code != envelope.CodeInputRequired && !strings.Contains(got, ofTool) {
			t.Errorf("%s: no details of the tool in\n%s", row.Code, out.String())
		}
	}
}

// A violation without a place is one of the request, or of the output.
func TestPrintsWhatIsViolated(t *testing.T) {
	for code, want := range map[envelope.Code]string{
		envelope.CodeSchema: "    (whole request): must be object\n",
		envelope.CodeOutput: "    (whole output): must be object\n",
	} {
		e := envelope.NewError(code, "").WithViolations(jsonschema.Violation{Message: "must be object"})
		var out strings.Builder
		PrintError(&out, e, "")
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

// A long standard error is printed with its first and last lines.
func TestPrintsEndsOfStderr(t *testing.T) {
	for n, want := range map[int][]string{
		20: {"stderr of the tool:\n    1\n    2\n", "    5\n    6\n", "    19\n    20\n"},
		3000: {
			"stderr of the tool:\n    1\n",
			"    5\n    [2980 lines left out; `toolbus result play/x --json` prints all]\n    2986\n",
			"    2999\n    3000\n",
		},
	} {
		e := envelope.NewError(envelope.CodeToolFault, "")
		for i := range n {
			e.Details.Stderr += strconv.Itoa(i+1) + "\n"
		}
		var out strings.Builder
		PrintError(&out, e, "play/x")
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%d lines: %q is not in\n%s", n, text, out.String())
			}
		}
	}
}

// A long line of standard error is cut. One without a line break at its end is a line, too.
func TestPrintsBeginningOfLongLine(t *testing.T) {
	e := envelope.NewError(envelope.CodeToolFault, "")
	e.Details.Stderr = strings.Repeat("x", 60_000) + "\nend"
	var out strings.Builder
	PrintError(&out, e, "play/x")
	want := "    " + strings.Repeat("x", maxDetail) + "… (59600 bytes more; --json prints all)\n    end\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Error(out.String())
	}
}

// The note of hidden lines says that the executor did not keep all bytes between them.
func TestPrintsBytesNotKept(t *testing.T) {
	e := envelope.NewError(envelope.CodeToolFault, "")
	e.Details.Stderr = strings.Repeat("a\n", 15) + "[3700000 bytes left out]\n" + strings.Repeat("b\n", 25)
	for ref, command := range map[string]string{"play/x": "`toolbus result play/x --json`", "": "--json"} {
		var out strings.Builder
		PrintError(&out, e, ref)
		want := "    a\n    [20 lines left out, which " + command + " prints, and after 10 of them 3700000 bytes " +
			"that were not kept]\n    b\n"
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

// What a tool gives as details is bounded, and forms no lines of its own.
func TestPrintsDetailsInLines(t *testing.T) {
	e := envelope.NewError(envelope.CodeUpstream, "").WithDetails(jsontext.Value(`{"reason":"a\nb` +
		strings.Repeat("x", 2*maxDetail) + `"}`))
	var out strings.Builder
	PrintError(&out, e, "play/x")
	if got := out.String(); !strings.Contains(got, "details.reason: a·bxx") || len(got) > 2*maxDetail ||
		!strings.Contains(got, "… (403 bytes more; --json prints all)\n") {
		t.Error(got)
	}
}

// A fix of a shipped tool names no details: agents of an MCP gateway see none.
func TestShippedFixes(t *testing.T) {
	found := 0
	for _, pattern := range []string{"../../tools/*/tool.yaml", "../../tools/mcp/*/tool.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range bytes.Lines(text) {
				if fix := bytes.TrimSpace(line); bytes.HasPrefix(fix, []byte("fix: ")) {
					if found++; bytes.Contains(fix, []byte("details.")) {
						t.Errorf("%s: %s", file, fix)
					}
				}
			}
		}
	}
	if found == 0 {
		t.Error("no tool has a fix")
	}
}
