package envelope

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

func unmarshal(b []byte, v any) error { return json.Unmarshal(b, v) }

func TestNewErrorFillsFromTheRow(t *testing.T) {
	for _, r := range Codes() {
		e := NewError(r.Code, "")
		if e.Message != r.Message || e.Fix != r.Fix || e.Category != r.Category ||
			e.Retryable != (r.Status == RetryableError) ||
			e.Details.Effect != r.Effect || e.Details.RetryAfterMS != r.RetryAfterMS {
			t.Errorf("%s: %+v", r.Code, e)
		}
		want := Diagnostic{r.Gateway, r.Category, r.Message, r.LikelyCause, r.Fix, e.Retryable, r.Severity}
		if *e.Diagnostic != want {
			t.Errorf("%s: diagnostic %+v", r.Code, e.Diagnostic)
		}
	}
	e := NewError(CodeTimeout, "after 5 s")
	if e.Message != "after 5 s" || e.Diagnostic.Message != "after 5 s" || e.String() != "R-TIMEOUT-001: after 5 s" {
		t.Errorf("%+v", e)
	}
}

func TestErrorTextsAreCleanAndBounded(t *testing.T) {
	dirty := "a\x00b\x1b[31mc\r\nd\xffe\u202ef\u0085g" + strings.Repeat("é", MaxStderr)
	e := NewError(CodeToolFault, dirty).WithCause(dirty).WithFix(dirty).WithToolCode(dirty).WithStderr(dirty)
	for name, c := range map[string]struct {
		text string
		most int
	}{
		"message": {e.Message, MaxMessage}, "cause": {e.Cause, MaxCause}, "fix": {e.Fix, MaxMessage},
		"tool code": {e.Details.ToolCode, MaxCode}, "diagnostic": {e.Diagnostic.Message, MaxMessage},
	} {
		if !strings.HasPrefix(c.text, "ab[31mc  defg") || len(c.text) > c.most || !utf8.ValidString(c.text) {
			t.Errorf("%s: %d bytes, %.60q", name, len(c.text), c.text)
		}
	}
	if s := e.Details.Stderr; len(s) > MaxStderr || !utf8.ValidString(s) || !strings.HasSuffix(s, "éé") {
		t.Errorf("stderr: %d bytes", len(s))
	}
	if got := NewError(CodeToolFault, "").WithStderr("one\n\ttwo\x07").Details.Stderr; got != "one\n\ttwo" {
		t.Errorf("stderr %q", got)
	}
	if got := NewError(CodeToolFault, "\x00").WithFix("\x00"); got.Message == "" || got.Fix == "" {
		t.Errorf("empty after cleaning: %+v", got)
	}
}

func TestWith(t *testing.T) {
	e := NewError(CodeUpstream, "").WithEffect(EffectNone).WithRetryAfter(1500 * time.Millisecond).
		WithFix("wait").WithHTTPStatus(502)
	if e.Details.Effect != EffectNone || e.Details.RetryAfterMS != 1500 || e.Fix != "wait" ||
		e.Diagnostic.SuggestedFix != "wait" || e.Details.HTTPStatus != 502 {
		t.Errorf("%+v", e)
	}
	if got := NewError(CodeUpstream, "").WithRetryAfter(-time.Second).Details.RetryAfterMS; got != 0 {
		t.Errorf("negative back-off became %d", got)
	}
	got := NewError(CodeUpstream, "").WithRetryAfter(1<<63 - 1).Details.RetryAfterMS
	if got != MaxRetryAfter.Milliseconds() {
		t.Errorf("a back-off of 292 years became %d ms", got)
	}
	if got := NewError(CodeTimeoutUnknown, "").WithRetryAfter(time.Second).Details.RetryAfterMS; got != 0 {
		t.Errorf("a terminal error has the back-off %d", got)
	}
	if got := NewError(CodeToolFault, "").WithHTTPStatus(7).Details.HTTPStatus; got != 0 {
		t.Errorf("HTTP status %d", got)
	}
	for n, listed := range map[int]int{1: 1, ijson.MaxViolations: ijson.MaxViolations, 500: ijson.MaxViolations} {
		got := NewError(CodeSchema, "").WithViolations(make([]jsonschema.Violation, n)...).Details
		if len(got.Violations) != listed || got.ViolationsTruncated != (n > listed) {
			t.Errorf("%d violations of %d, truncated: %t", len(got.Violations), n, got.ViolationsTruncated)
		}
	}
}

func TestWithDetails(t *testing.T) {
	nested := func(depth int) string { return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth) }
	e := NewError(CodeUpstream, "").WithDetails(jsontext.Value(`{"status":429,"effect":"applied","stderr":"x",` +
		`"retry_after_ms":1}`))
	if len(e.Details.Extra) != 1 || string(e.Details.Extra["status"]) != "429" {
		t.Errorf("%v", e.Details.Extra)
	}
	for _, bad := range []string{`{"a":1,"a":2}`, `[1]`, `nonsense`,
		`{"a":"` + strings.Repeat("x", MaxErrorDetails) + `"}`, nested(ijson.MaxDepth - 1)} {
		e := NewError(CodeUpstream, "").WithDetails(jsontext.Value(bad))
		if string(e.Details.Extra["details_dropped"]) != "true" {
			t.Errorf("%.40s: %v", bad, e.Details.Extra)
		}
	}
	deepest := Failure(NoCallID, NewError(CodeUpstream, "").WithDetails(jsontext.Value(nested(ijson.MaxDepth-2))),
		Provenance{ToolID: "t", ToolVersion: "1.0.0"}, Metrics{})
	body, err := EncodeResponse(ContentJSON, deepest)
	if _, fault := DecodeResponse(ContentJSON, body); err != nil || fault != nil ||
		deepest.Error.Details.Extra["a"] == nil {
		t.Errorf("the deepest details: %v, %v, %v", err, fault, deepest.Error.Details.Extra)
	}
	for _, none := range []string{``, `null`, `{}`} {
		if e := NewError(CodeUpstream, "").WithDetails(jsontext.Value(none)); len(e.Details.Extra) != 0 {
			t.Errorf("%q: %v", none, e.Details.Extra)
		}
	}
}

func TestResponseCheck(t *testing.T) {
	ok := jsontext.Value(`{}`)
	for name, c := range map[string]struct {
		change func(*Response)
		base   *Response
	}{
		"call id":                {func(r *Response) { r.CallID = "x" }, minimalResponse()},
		"no status":              {func(r *Response) { r.Status = "" }, minimalResponse()},
		"fifth status":           {func(r *Response) { r.Status = "success_prep" }, minimalResponse()},
		"success without output": {func(r *Response) { r.Output = nil }, minimalResponse()},
		"success with error":     {func(r *Response) { r.Error = NewError(CodeTimeout, "") }, minimalResponse()},
		"two outputs":            {func(r *Response) { r.Output = ok }, refResponse()},
		"success of what":        {func(r *Response) { r.Provenance.ToolVersion = "" }, minimalResponse()},
		"error with output":      {func(r *Response) { r.Output = ok }, retryableResponse()},
		"error with reference":   {func(r *Response) { r.Provenance.OutputRef = &PayloadRef{} }, retryableResponse()},
		"status of another code": {func(r *Response) { r.Status = TerminalError }, retryableResponse()},
		"no error":               {func(r *Response) { r.Error = nil }, retryableResponse()},
		"no code":                {func(r *Response) { r.Error.Code = "" }, retryableResponse()},
		"retryable contradicts":  {func(r *Response) { r.Error.Retryable = false }, retryableResponse()},
		"effect unsaid":          {func(r *Response) { r.Error.Details.Effect = "" }, retryableResponse()},
		"effect guessed":         {func(r *Response) { r.Error.Details.Effect = "perhaps" }, retryableResponse()},
	} {
		if err := c.base.Check(); err != nil {
			t.Fatalf("%s: the sample: %v", name, err)
		}
		c.change(c.base)
		if c.base.Check() == nil {
			t.Errorf("%s: no complaint", name)
		}
		body, err := EncodeResponse("", c.base)
		if err != nil {
			t.Fatal(err)
		}
		if _, e := DecodeResponse("", body); e == nil {
			t.Errorf("%s: decoded", name)
		}
	}
}

func TestFailureAlwaysHasACallID(t *testing.T) {
	r := Failure("", NewError(CodeMalformed, ""), Provenance{Final: true}, Metrics{})
	if r.CallID != NoCallID || r.Status != InvalidRequest || r.Check() != nil {
		t.Errorf("%+v", r)
	}
}
