package tooltest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

func testValidate(t *testing.T, s *suite) {
	if err := s.Adapter.Validate(s.manifest); err != nil {
		t.Errorf("Validate: %v", err)
	}
	foreign := *s.manifest
	foreign.Transport = "carrier pigeon"
	if s.Adapter.Validate(&foreign) == nil {
		t.Error("Validate took a manifest of another transport")
	}
}

// testValidateCall checks that calls are refused by the tool's check if the adapter has one, and by nothing else. A
// check that fails is a fault of the tool, and its call may run as well as any other afterwards.
func testValidateCall(t *testing.T, s *suite) {
	ask := func(text string) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return tool.ValidateCall(ctx, s.Adapter, s.manifest, s.invocation(t, FnEcho, Input{Text: text}))
	}
	_, validates := s.Adapter.(tool.CallValidator)
	for text, want := range map[string]envelope.Code{
		"fine": "", TextRefused: "P-PRECOND-REFUSED", "panic": envelope.CodeToolFault,
	} {
		switch err := ask(text); {
		case want == "" || !validates:
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
		case err == nil:
			t.Errorf("%s: not refused", text)
		default:
			if got := tool.ClassifyError(s.Adapter, s.manifest, err); got.Code != want {
				t.Errorf("%s: got %v, want %s", text, got, want)
			}
		}
	}
	if _, _, err := s.execute(t, FnEcho, Input{Text: "fine"}); err != nil {
		t.Errorf("after the checks: %v", err)
	}
}

func testEcho(t *testing.T, s *suite) {
	for _, dryRun := range []bool{false, true} {
		inv := s.invocation(t, FnEcho, Input{Text: "hello"})
		inv.DryRun = dryRun
		result, err := s.Adapter.Execute(t.Context(), s.manifest, inv, &Recorder{})
		if err != nil {
			t.Fatal(err)
		}
		var got tool.Invocation
		// An adapter may return the fence as text, because it is beyond 2^53.
		fence := strconv.FormatUint(inv.Fence, 10)
		output := strings.Replace(string(result.Output), strconv.Quote(fence), fence, 1)
		if err := json.Unmarshal([]byte(output), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(inv, got); diff != "" {
			t.Errorf("the tool was told (-want +got):\n%s", diff)
		}
	}
}

func testUnicode(t *testing.T, s *suite) {
	text := "ü 漢字 🚀 \u0000 \u2028 \" \\ \n </script> \ufeff"
	result, _, err := s.execute(t, FnEcho, Input{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Input Input
	}
	if err := json.Unmarshal(result.Output, &got); err != nil {
		t.Fatal(err)
	}
	if got.Input.Text != text {
		t.Errorf("got %q, want %q", got.Input.Text, text)
	}
}

func testChunks(t *testing.T, s *suite) {
	const n = 100
	result, sink, err := s.execute(t, FnChunks, Input{N: n})
	if err != nil {
		t.Fatal(err)
	}
	if string(result.Output) != fmt.Sprint(n) {
		t.Errorf("output %s, want %d", result.Output, n)
	}
	var want []Emitted
	for i := range n {
		data := fmt.Sprintf(`{"i":%d}`, i)
		want = append(want, Emitted{envelope.ChunkData, data}, Emitted{envelope.ChunkProgress, data},
			Emitted{envelope.ChunkLog, data})
	}
	if diff := cmp.Diff(want, sink.All()); diff != "" {
		t.Errorf("chunks (-want +got):\n%s", diff)
	}
}

func testEffects(t *testing.T, s *suite) {
	result, _, err := s.execute(t, FnEffects, Input{})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.SideEffects) != 1 || result.SideEffects[0].Kind() != '{' || len(result.Warnings) != 1 {
		t.Errorf("side effects %s, warnings %q", result.SideEffects, result.Warnings)
	}
}

func testBig(t *testing.T, s *suite) {
	const n = 1_000_000
	result, _, err := s.execute(t, FnBig, Input{N: n})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Output) != n+2 {
		t.Errorf("output of %d bytes, want %d", len(result.Output), n+2)
	}
}

func testErrors(t *testing.T, s *suite) {
	details := jsontext.Value(`{"url":"https://example.com","effect":"none"}`)
	tests := []struct {
		name        string
		determinism call.EffectClass
		fault       Fault
		want        envelope.Error // the fields that are compared
	}{
		{
			"declared", call.Idempotent, Fault{Code: "busy", Message: "come back", Details: details,
				Effect: envelope.EffectNone, RetryAfterMS: 1234},
			envelope.Error{Code: "R-CAP-BUSY", Message: "come back", Fix: "wait", Details: envelope.Details{
				ToolCode: "busy", HTTPStatus: 429, Effect: envelope.EffectNone, RetryAfterMS: 1234,
				Extra: map[string]jsontext.Value{"url": jsontext.Value(`"https://example.com"`)},
			}},
		},
		{
			"asks for more patience than anybody has", call.Idempotent,
			Fault{Code: "busy", Message: "come back", Effect: envelope.EffectNone, RetryAfterMS: 1e15},
			envelope.Error{Code: "R-CAP-BUSY", Message: "come back", Fix: "wait", Details: envelope.Details{
				ToolCode: "busy", HTTPStatus: 429, Effect: envelope.EffectNone, RetryAfterMS: envelope.MaxRetryAfter.Milliseconds(),
			}},
		},
		{
			"declared, with the manifest's message", call.Idempotent, Fault{Code: "refused", Effect: envelope.EffectApplied},
			envelope.Error{Code: "P-PRECOND-REFUSED", Message: "refused", Fix: "ask", Details: envelope.Details{
				ToolCode: "refused", HTTPStatus: 409, Effect: envelope.EffectApplied,
			}},
		},
		{
			"silent about its effect", call.Idempotent, Fault{Code: "refused", Message: "no"},
			envelope.Error{Code: "P-PRECOND-REFUSED", Message: "no", Fix: "ask", Details: envelope.Details{
				ToolCode: "refused", HTTPStatus: 409, Effect: envelope.EffectUnknown,
			}},
		},
		{
			"silent about its effect, pure", call.Pure, Fault{Code: "refused", Message: "no"},
			envelope.Error{Code: "P-PRECOND-REFUSED", Message: "no", Fix: "ask", Details: envelope.Details{
				ToolCode: "refused", HTTPStatus: 409, Effect: envelope.EffectNone,
			}},
		},
		{
			"not declared", call.Idempotent, Fault{Code: "surprise", Message: "oops"},
			envelope.Error{
				Code: "S-TOOL-SURPRISE", Message: "oops", Fix: "declare the error surprise in the tool's manifest",
				Details: envelope.Details{ToolCode: "surprise", Effect: envelope.EffectUnknown, RetryAfterMS: 200},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s.manifest.Class = test.determinism
			got := s.fails(t, FnFail, Input{Fault: &test.fault})
			same := envelope.Error{Code: got.Code, Message: got.Message, Fix: got.Fix, Details: got.Details}
			same.Details.ToolResult = nil // only some adapters set it
			if len(same.Details.Extra) == 0 {
				same.Details.Extra = nil
			}
			if diff := cmp.Diff(test.want, same); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// testUnsafe checks that a failed call of a side-effectful tool is retryable only if its effect is none.
func testUnsafe(t *testing.T, s *suite) {
	s.manifest.Class = call.SideEffectful
	for _, effect := range []envelope.Effect{"", envelope.EffectUnknown, envelope.EffectApplied, envelope.EffectNone} {
		got := s.fails(t, FnFail, Input{Fault: &Fault{Code: "busy", Message: "come back", Effect: effect}})
		if want := effect == envelope.EffectNone; got.Retryable != want {
			t.Errorf("effect %q: %s is retryable: %t, want %t", effect, got.Code, got.Retryable, want)
		}
		if got.Details.ToolCode != "busy" || got.Message != "come back" {
			t.Errorf("effect %q: what the tool said is lost: %v", effect, got)
		}
	}
	if got := s.fails(t, FnCrash, Input{}); got.Retryable {
		t.Errorf("a crash is %s, retryable", got.Code)
	}
}

func testBadOutput(t *testing.T, s *suite) {
	if got := s.fails(t, FnBadOutput, Input{}); got.Code != envelope.CodeToolProtocol ||
		got.Details.Effect == envelope.EffectNone {
		t.Errorf("got %v, effect %s", got, got.Details.Effect)
	}
}

func testCrash(t *testing.T, s *suite) {
	got := s.fails(t, FnCrash, Input{})
	if got.Code != envelope.CodeToolFault || got.Details.Effect != envelope.EffectUnknown {
		t.Errorf("got %v, effect %s", got, got.Details.Effect)
	}
	if !strings.Contains(got.Details.Stderr, "crash as asked") {
		t.Errorf("stderr %q does not say why", got.Details.Stderr)
	}
	if _, _, err := s.execute(t, FnEcho, Input{}); err != nil {
		t.Errorf("after a crash: %v", err)
	}
}

func testLookup(t *testing.T, s *suite) {
	lookup := func(key string) (tool.Result, bool, error) {
		inv := s.invocation(t, FnEcho, Input{})
		inv.IdempotencyKey = key
		return s.Adapter.Lookup(t.Context(), s.manifest, inv)
	}
	result, found, err := lookup(KeyCommitted)
	if err != nil || !found || result.Output.Kind() != '{' {
		t.Errorf("committed: %s, %t, %v", result.Output, found, err)
	}
	if _, found, err = lookup("absent-0123456789"); err != nil || found {
		t.Errorf("absent: %t, %v", found, err)
	}
	if _, found, err = lookup(KeyBroken); err == nil || found {
		t.Errorf("broken: %t, %v", found, err)
	} else if got := tool.ClassifyError(s.Adapter, s.manifest, err); got.Code != "R-CAP-BUSY" {
		t.Errorf("broken: %v", got)
	}
	s.manifest.Capability.Lookup = false
	if _, found, err = lookup(KeyCommitted); !errors.Is(err, tool.ErrNoLookup) || found {
		t.Errorf("without lookup: %t, %v", found, err)
	}
}

func testClassify(t *testing.T, s *suite) {
	for _, err := range []error{nil, errors.New("anything"), context.Canceled,
		fmt.Errorf("wrapped: %w", &tool.LimitError{Limit: 1})} {
		got := tool.ClassifyError(s.Adapter, s.manifest, err)
		if got == nil || got.Code.Class() == "" || got.Details.Effect == "" {
			t.Errorf("%v: %+v", err, got)
		}
	}
}
