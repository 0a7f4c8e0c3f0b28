package envelope

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

var update = flag.Bool("update", false, "rewrite golden files")

// codeConstants returns the Code constants of taxonomy.go, by reading the source.
func codeConstants(t *testing.T) map[string]Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "taxonomy.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Code{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found[spec.Names[0].Name] = Code(text)
		}
		return true
	})
	return found
}

func TestTableIsTotal(t *testing.T) {
	constants := codeConstants(t)
	if len(constants) < 30 {
		t.Fatalf("found only %d constants", len(constants))
	}
	count := map[Code]int{}
	for _, r := range Codes() {
		count[r.Code]++
	}
	for name, code := range constants {
		if count[code] != 1 {
			t.Errorf("%s has %d rows", name, count[code])
		}
		if code.Class() == "" || len(code) > MaxCode {
			t.Errorf("%s = %s has no class or is too long", name, code)
		}
	}
	if len(count) != len(constants) {
		t.Errorf("%d rows for %d constants", len(count), len(constants))
	}
}

func TestRowsAreComplete(t *testing.T) {
	rows := Codes()
	for class, r := range defaults() {
		r.Code = Code(class) + "-X"
		rows = append(rows, r)
	}
	for _, r := range rows {
		v := reflect.ValueOf(r)
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; name {
			case "AutoRetry", "RetryAfterMS", "MCP":
			default:
				if v.Field(i).IsZero() {
					t.Errorf("%s: %s is empty", r.Code, name)
				}
			}
		}
		if r.AutoRetry && r.Status != RetryableError {
			t.Errorf("%s is retried but not retryable", r.Code)
		}
		if (r.RetryAfterMS > 0) != (r.Status == RetryableError) {
			t.Errorf("%s: back-off hint %d in a %s", r.Code, r.RetryAfterMS, r.Status)
		}
		if r.HTTPStatus < 400 || r.HTTPStatus > 599 {
			t.Errorf("%s: HTTP status %d", r.Code, r.HTTPStatus)
		}
		if max(len(r.Message), len(r.Fix)) > MaxMessage {
			t.Errorf("%s: message or fix is too long", r.Code)
		}
	}
}

// TestStatuses states the meanings that the protocol relies on.
func TestStatuses(t *testing.T) {
	want := map[Status][]Code{
		RetryableError: {
			CodeCancelled, CodeTimeout, CodeUpstream, CodeCapacity, CodeStoreFull, CodeAuditLag, CodeJoiners,
			CodeExpired, CodeQueue, CodeOpen, CodeInputMissing,
			CodeLocked, CodeChanged, CodeToolFault, CodeUnavailable, CodeInternal, "R-UPSTREAM-FETCH_FAILED", "R-HTTP-429",
			"S-TOOL-X", "R-CAP-X", "R-TIMEOUT-X", "nonsense", "",
		},
		TerminalError: {
			CodeIdentity, CodeForbidden, CodeToken, CodeRevoked, CodeScope, CodeLane, CodeToolInLane,
			CodeProhibited, CodeScopeKey, CodeRunUnknown, CodeRunState, CodePolicyVersion,
			CodeCancelledUnknown, CodeDryRun, CodeDurability, CodeAttempts, CodeToolDisabled, CodeToolChanged, CodeInputRequired,
			CodeLogDamaged, CodeNotFound, CodeTimeoutUnknown, CodeToolFaultAgain, CodeToolUnknownState, CodeLost, CodeVersion,
			CodeDigest, CodeOutput,
			CodeOutputLimit, CodeWriteTarget,
			CodeToolProtocol, CodeChecksum, CodePayloadMissing, "A-AUTH-X", "P-PRECOND-X", "C-CONTRACT-X",
			"D-DATA-X",
		},
		InvalidRequest: {
			CodeMalformed, CodeSchema, CodeLimit, CodeInputRef, CodeKeyReused, CodeToolUnknown, CodeFnUnknown, CodeUnsafe,
			CodeInputState,
			"I-REQ-X",
		},
	}
	listed := map[Code]bool{}
	for status, codes := range want {
		for _, c := range codes {
			listed[c] = true
			if c.Status() != status || c.Retryable() != (status == RetryableError) {
				t.Errorf("%s is %s, want %s", c, c.Status(), status)
			}
			manual := c == CodeCancelled || c == CodeLocked || c == CodeChanged || c == CodeInternal
			if c.AutoRetry() != (status == RetryableError && !manual) {
				t.Errorf("%s: AutoRetry is %t", c, c.AutoRetry())
			}
			if Lookup(c).Code != c {
				t.Errorf("Lookup(%s) is the row of %s", c, Lookup(c).Code)
			}
		}
	}
	for name, c := range codeConstants(t) {
		if !listed[c] {
			t.Errorf("%s is not listed in this test", name)
		}
	}
}

// No response advises to repeat a call whose effect took place, whichever fix its error had; of others the fix stays.
func TestFixOfAppliedEffects(t *testing.T) {
	codes := []Code{"P-PRECOND-X", "R-UPSTREAM-X"}
	for _, r := range Codes() {
		codes = append(codes, r.Code)
	}
	for _, c := range codes {
		for _, fix := range []string{"", "call again"} {
			for _, effect := range []Effect{EffectApplied, EffectNone, EffectUnknown} {
				e := Failure("", NewError(c, "").WithEffect(effect).WithFix(fix), Provenance{}, Metrics{}).Error
				applied := e.Fix == FixApplied && e.Diagnostic.SuggestedFix == FixApplied
				if applied != (effect == EffectApplied) {
					t.Errorf("%s, effect %s: %q, %q", c, effect, e.Fix, e.Diagnostic.SuggestedFix)
				}
			}
		}
	}
	for _, c := range []Code{CodePayloadMissing, CodeChecksum} { // refusals of questions about outputs, too
		if fix := NewError(c, "").Fix; strings.HasPrefix(fix, "send") {
			t.Errorf("%s: %q", c, fix)
		}
	}
}

func TestToolErrorCode(t *testing.T) {
	for _, c := range []struct {
		class ErrorClass
		name  string
		want  Code
	}{
		{ClassUpstream, "fetch_failed", "R-UPSTREAM-FETCH_FAILED"},
		{ClassData, "Parse-Failed 2", "D-DATA-PARSE_FAILED_2"},
		{ClassTool, "unavailable", "S-TOOL-TOOL_UNAVAILABLE"},
		{ClassTimeout, "002", "R-TIMEOUT-TOOL_002"},
		{ClassPrecondition, "input_required", "P-PRECOND-TOOL_INPUT_REQUIRED"},
		{ClassRequest, "", "I-REQ-UNNAMED"},
		{"X-FILES", "boo", "S-TOOL-BOO"},
		{ClassTool, "ß\xff", "S-TOOL-__"},
		{ClassPrecondition, strings.Repeat("x", 200), Code("P-PRECOND-" + strings.Repeat("X", 49))},
	} {
		got := ToolErrorCode(c.class, c.name)
		if got != c.want {
			t.Errorf("ToolErrorCode(%q, %q) = %s, want %s", c.class, c.name, got, c.want)
		}
		if len(got) > MaxCode {
			t.Errorf("%s has %d bytes", got, len(got))
		}
	}
}

func TestErrorsDocument(t *testing.T) {
	var b bytes.Buffer
	if err := writeErrorTable(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "../docs/errors.md", b.Bytes())
}

// golden compares got with a file, or rewrites the file under -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date (run the test with -update and review):\n%s", path, got)
	}
}

func TestErrorsFitTheirSchema(t *testing.T) {
	for _, r := range Codes() {
		e := NewError(r.Code, "").WithViolations(jsonschema.Violation{Pointer: "/a", Rule: "type",
			Message: "must be null"}).WithCause("x").WithStderr("y")
		s := Failure(sampleCall, e, sampleProvenance(), Metrics{})
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", r.Code, err)
		}
		body, err := EncodeResponse("", s)
		if err != nil {
			t.Fatal(err)
		}
		if v := ResponseSchema().Validate(body); v != nil {
			t.Errorf("%s: %v", r.Code, v)
		}
		var parts struct {
			Error jsontext.Value `json:"error"`
		}
		if err := unmarshal(body, &parts); err != nil {
			t.Fatal(err)
		}
		if v := ErrorSchema().Validate(parts.Error); v != nil {
			t.Errorf("%s: %v", r.Code, v)
		}
	}
}
