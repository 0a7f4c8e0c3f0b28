package main

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool/scaffold"
)

// A call that had nearly the longest time of its tool is not advised to take more.
func TestAdviceOnTime(t *testing.T) {
	fix := envelope.NewError(envelope.CodeTimeout, "").Fix
	const longer = "and with a longer --timeout, at most 30s"
	const longest = "with the same key; the tool gives no call more than 30s"
	for had, says := range map[time.Duration]string{0: longer, 10 * time.Second: longer, 29 * time.Second: longest} {
		if got := withTimeout(fix, had, 30*time.Second); !strings.Contains(got, says) {
			t.Errorf("after %s: %s", had, got)
		}
	}
	unknown := envelope.NewError(envelope.CodeTimeoutUnknown, "").Fix
	const newKey = "a new key, " + longer + ", the timeout_ms_max of the tool"
	if got := withTimeout(unknown, time.Second, 30*time.Second); !strings.HasSuffix(got, newKey) {
		t.Errorf("a side-effectful tool: %s", got)
	}
	if got := withTimeout(fix, time.Minute, 0); !strings.HasSuffix(got, "and with a longer --timeout") {
		t.Errorf("a tool that is not known: %s", got)
	}
}

// A call that timed out names the flag for more time and the longest time of its tool. A call with a second attempt
// says why that was made.
func TestAdviceAfterCall(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	says := func(want string, args ...string) string {
		t.Helper()
		_, stdout, stderr := s.do(args...)
		if !strings.Contains(stderr, want) {
			t.Errorf("%v does not say %q:\n%s%s", args, want, stdout, stderr)
		}
		return stderr
	}
	const longer = "with a longer --timeout, at most 1m, the timeout_ms_max of the tool\n"
	out := says(longer, "call", "play", "--input", `{"work_ms":30000}`, "--timeout", "400ms", "--attempts", "1")
	_, ref, _ := strings.Cut(out, " · ref ")
	if again := says(longer, "result", strings.TrimSpace(ref)); strings.Contains(again, "replayed") {
		t.Error(again)
	}
	says("warning: the actor bob is not agent://bob", "call", "play", "--actor", "bob")
	says("attempt 2 was made because attempt 1 ended with R-UPSTREAM",
		"call", "play", "--input", `{"fail":"upstream"}`, "--attempts", "2")
	once := says("R-UPSTREAM", "call", "play", "--input", `{"fail":"upstream","say":"once"}`, "--attempts", "1")
	if strings.Contains(once, "was made because") {
		t.Error(once)
	}
}

// A call with a new key is advised only if the former one had no effect.
func TestNewKeyIsAdvisedWithoutEffect(t *testing.T) {
	for effect, want := range map[envelope.Effect]bool{
		envelope.EffectNone: true, envelope.EffectUnknown: false, envelope.EffectApplied: false,
	} {
		var out, problems strings.Builder
		g := newGlobal(&environment{stdout: &out, stderr: &problems})
		r := envelope.Failure("", envelope.NewError(envelope.CodeOutput, "").WithEffect(effect),
			envelope.Provenance{Attempt: 1, Final: true}, envelope.Metrics{})
		if err := conclude(t.Context(), g, toolbus.Call{Key: "order-0000000000001"}, r, ""); err == nil {
			t.Error("no exit code")
		}
		if strings.Contains(problems.String(), "call with a new key") != want {
			t.Errorf("effect %s:\n%s", effect, &problems)
		}
	}
}

// The fix of an unknown effect names the key that the tool was given, unless the call may run again.
func TestKeyOfUnknownEffect(t *testing.T) {
	const says = "; the tool knows the call as bqkfb13odumtr7qrm50p00isii2o6c9j: look for its effect under that name"
	for code, want := range map[envelope.Code]bool{
		envelope.CodeToolUnknownState: true, envelope.CodeTimeoutUnknown: true, envelope.CodeTimeout: false,
	} {
		e := envelope.NewError(code, "").WithEffect(envelope.EffectUnknown)
		if got := withToolKey(e, "play.bqkfb13odumtr7qrm50p00isii2o6c9j"); strings.HasSuffix(got, says) != want {
			t.Errorf("%s: %s", code, got)
		}
		if got := withToolKey(e, ""); got != e.Fix {
			t.Errorf("%s without a reference: %s", code, got)
		}
	}
}

// A program that reads the JSON of an outcome finds its reference, and the key that the tool was given.
func TestReferenceInJSON(t *testing.T) {
	const ref = "play.bqkfb13odumtr7qrm50p00isii2o6c9j"
	var out strings.Builder
	g := newGlobal(&environment{stdout: &out})
	g.json = true
	r := envelope.Failure("0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a4d",
		envelope.NewError(envelope.CodeToolUnknownState, "").WithEffect(envelope.EffectUnknown),
		envelope.Provenance{Attempt: 1, Final: true}, envelope.Metrics{})
	nameKey(r, ref)
	if err := printOutcome(g, r, ref); err == nil {
		t.Error("no exit code")
	}
	if !strings.Contains(out.String(), `"ref": "`+ref+`"`) || !strings.Contains(r.Error.Fix, "look for its effect") {
		t.Error(out.String())
	}
	got, err := envelope.DecodeResponse(envelope.ContentJSON, []byte(out.String()))
	if err != nil || len(got.Provenance.Extra) != 1 {
		t.Errorf("%v: %s", err, &out)
	}
}

// On the user's own bus, the fix of a fault of a tool says what its owner does, and that of an undeclared member or
// function that the manifest may be older than the program.
func TestAdviceToOwner(t *testing.T) {
	tools := playTools(t)
	s, _, _ := startDevOf(t, tools, t.TempDir(), "--data-dir", t.TempDir(), "--port", "0")
	for input, says := range map[string]string{
		`{"crash":true}`:  "if the program of the tool takes what was refused, its manifest in '" + tools + "' is older",
		`{"work_ms":1.0}`: "call again once with the same key; mend the tool if it repeats; the cause is above",
	} {
		_, _, stderr := s.do("call", "play", "--input", input, "--attempts", "1")
		if !strings.Contains(stderr, says) {
			t.Errorf("%s: no %q in\n%s", input, says, stderr)
		}
		_, ref, ok := strings.Cut(stderr, " · ref ")
		if _, _, again := s.do("result", strings.TrimSpace(ref)); ok && !strings.Contains(again, says) {
			t.Errorf("result: no %q in\n%s", says, again)
		}
	}
	for fn, older := range map[string]bool{"rewind": true, "paly": false} { // the last one is misspelt
		_, _, stderr := s.do("call", "play", fn)
		if strings.Contains(stderr, "of a Go program with ToolMain") != older {
			t.Errorf("the function %s:\n%s", fn, stderr)
		}
	}
	if _, _, stderr := s.do("call", "play", "--input", `{"sya":"hi"}`); strings.Contains(stderr, "is older") ||
		!strings.Contains(stderr, "did you mean") {
		t.Errorf("a misspelt member:\n%s", stderr)
	}
	_, out, _ := s.do("call", "play", "--input", `{"work_ms":1.0}`, "--attempts", "1", "--json")
	if !strings.Contains(out, toOwner) {
		t.Errorf("for a program:\n%s", out)
	}
}

// All advice to report to the owner is replaced.
func TestRepair(t *testing.T) {
	const lint = "`toolbus tools lint DIR` checks its manifest"
	for code, says := range map[envelope.Code]string{
		envelope.CodeOutput:         "mend the tool or its manifest as it says in details.violations; " + lint,
		envelope.CodeToolFaultAgain: "mend the tool",
		envelope.CodeLost:           "look at the dead letter of the call (`toolbus dead list`), and mend the tool",
		envelope.CodeTimeout:        envelope.NewError(envelope.CodeTimeout, "").Fix,
	} {
		if got := withRepair(envelope.NewError(code, ""), "DIR"); got != says {
			t.Errorf("%s: %s", code, got)
		}
	}
	e := envelope.NewError(envelope.CodeToolFaultAgain, "").WithCause("exit status 1").WithStderr("Traceback")
	if got := withRepair(e, "DIR"); got != "mend the tool; the cause is above; what it wrote to standard error is below" {
		t.Error(got)
	}
}

// Only the program of a Go tool can write a manifest.
func TestRepairOfManifest(t *testing.T) {
	tools := playTools(t)
	if _, err := scaffold.Write(tools, scaffold.Spec{
		ID: "greet", Language: scaffold.Python, Class: scaffold.Pure,
	}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"play": true, "greet": false, "nosuch": false} {
		if ofGo(tools, id) != want {
			t.Errorf("%s is of Go: %t", id, !want)
		}
	}
}
