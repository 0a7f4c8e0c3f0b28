package tool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process/protocol"
)

// TestClassify shows the code and the effect of every error, by the tool's effect class.
func TestClassify(t *testing.T) {
	const none, applied, unknown = envelope.EffectNone, envelope.EffectApplied, envelope.EffectUnknown
	type place struct {
		code   envelope.Code
		effect envelope.Effect
	}
	cause := errors.New("somebody wanted so")
	tests := []struct {
		name                        string
		err                         error
		pure, idempotent, dangerous place
	}{
		{
			"not started", &tool.StartError{Err: cause},
			place{envelope.CodeUnavailable, none}, place{envelope.CodeUnavailable, none}, place{envelope.CodeUnavailable, none},
		},
		{
			"crash", &tool.CrashError{How: "exit status 1"},
			place{envelope.CodeToolFault, none}, place{envelope.CodeToolFault, unknown},
			place{envelope.CodeToolUnknownState, unknown},
		},
		{
			"protocol", &tool.ProtocolError{Reason: "garbage"},
			place{envelope.CodeToolProtocol, none}, place{envelope.CodeToolProtocol, unknown},
			place{envelope.CodeToolProtocol, unknown},
		},
		{
			"limit", &tool.LimitError{Limit: 7},
			place{envelope.CodeOutputLimit, none}, place{envelope.CodeOutputLimit, unknown},
			place{envelope.CodeOutputLimit, unknown},
		},
		{
			"sink", &tool.SinkError{Err: cause},
			place{envelope.CodeUpstream, none}, place{envelope.CodeUpstream, unknown},
			place{envelope.CodeToolUnknownState, unknown},
		},
		{
			"cancelled", &tool.StoppedError{Cause: cause},
			place{envelope.CodeCancelled, none}, place{envelope.CodeCancelled, unknown},
			place{envelope.CodeCancelledUnknown, unknown},
		},
		{
			"cancelled, and nothing done", &tool.StoppedError{Cause: cause, Effect: none},
			place{envelope.CodeCancelled, none}, place{envelope.CodeCancelled, none}, place{envelope.CodeCancelled, none},
		},
		{
			"deadline", &tool.StoppedError{Cause: context.DeadlineExceeded},
			place{envelope.CodeTimeout, none}, place{envelope.CodeTimeout, unknown}, place{envelope.CodeTimeoutUnknown, unknown},
		},
		{
			"deadline, and all done", &tool.StoppedError{Cause: context.DeadlineExceeded, Effect: applied},
			place{envelope.CodeTimeout, applied}, place{envelope.CodeTimeout, applied},
			place{envelope.CodeTimeoutUnknown, applied},
		},
		{
			"survivors", &tool.SurvivorError{Waited: time.Second},
			place{envelope.CodeToolFault, none}, place{envelope.CodeToolFault, unknown},
			place{envelope.CodeToolUnknownState, unknown},
		},
		{
			"anything", cause,
			place{envelope.CodeToolFault, none}, place{envelope.CodeToolFault, unknown},
			place{envelope.CodeToolUnknownState, unknown},
		},
		{
			"wrapped", fmt.Errorf("run: %w", &tool.LimitError{Limit: 7}),
			place{envelope.CodeOutputLimit, none}, place{envelope.CodeOutputLimit, unknown},
			place{envelope.CodeOutputLimit, unknown},
		},
		{
			"the tool's own", &tool.Error{Code: "busy", Message: "later"},
			place{"R-CAP-BUSY", none}, place{"R-CAP-BUSY", unknown}, place{envelope.CodeToolUnknownState, unknown},
		},
		{
			"the tool's own, and nothing done", &tool.Error{Code: "busy", Message: "later", Effect: none},
			place{"R-CAP-BUSY", none}, place{"R-CAP-BUSY", none}, place{"R-CAP-BUSY", none},
		},
		{
			"the tool's own, with an effect that it made up", &tool.Error{Code: "busy", Message: "later", Effect: "perhaps"},
			place{"R-CAP-BUSY", unknown}, place{"R-CAP-BUSY", unknown}, place{envelope.CodeToolUnknownState, unknown},
		},
		{
			"an input that the function does not take", &tool.Error{Code: protocol.Undecoded},
			place{envelope.CodeSchema, none}, place{envelope.CodeSchema, none}, place{envelope.CodeSchema, none},
		},
		{
			"a function that the program does not have", &tool.Error{Code: protocol.Unserved},
			place{envelope.CodeDigest, none}, place{envelope.CodeDigest, none}, place{envelope.CodeDigest, none},
		},
		{
			"the name of a code of ours", &tool.Error{Code: "limit", Message: "x"},
			place{"I-REQ-TOOL_LIMIT", none}, place{"I-REQ-TOOL_LIMIT", unknown}, place{"I-REQ-TOOL_LIMIT", unknown},
		},
	}
	for _, test := range tests {
		for determinism, want := range map[call.EffectClass]place{
			call.Pure: test.pure, call.Idempotent: test.idempotent, call.SideEffectful: test.dangerous,
		} {
			m := &tool.Manifest{Class: determinism, Errors: map[string]tool.ErrorSpec{
				"busy":  {Name: "busy", Class: envelope.ClassCapacity, Message: "busy", Fix: "wait"},
				"limit": {Name: "limit", Class: envelope.ClassRequest, Message: "limit", Fix: "less"},
			}}
			got := tool.Classify(m, test.err)
			if (place{got.Code, got.Details.Effect}) != want {
				t.Errorf("%s, %s: %s with effect %s, want %s with %s", test.name, determinism, got.Code, got.Details.Effect,
					want.code, want.effect)
			}
			if got.Retryable && determinism == call.SideEffectful && got.Details.Effect != none {
				t.Errorf("%s: a call that may have had its effect may run again", test.name)
			}
			if got.Message == "" || got.Fix == "" || test.err.Error() == "" {
				t.Errorf("%s: %+v", test.name, got)
			}
		}
	}
}

// A run that ended at its deadline says what the tool had answered, and advises no longer time if that would not help.
func TestStoppedSaysWhatWasAnswered(t *testing.T) {
	const applied, unknown = envelope.EffectApplied, envelope.EffectUnknown
	const kept, owner = "the answer is not kept", "a longer time does not help"
	for _, c := range []struct {
		class        call.EffectClass
		answered     bool
		effect       envelope.Effect
		message, fix string
	}{
		{call.Pure, true, applied, kept, "report it to the tool's owner: " + owner},
		{call.SideEffectful, true, applied, kept + ", except that its effect took place", owner},
		{call.SideEffectful, true, unknown, kept, "find out whether the effect took place before calling again with a " +
			"new key; report it to the tool's owner: " + owner},
		{call.SideEffectful, false, applied, "the tool said that its effect took place", "a larger timeout_ms"},
		{call.Pure, false, applied, envelope.Lookup(envelope.CodeTimeout).Message, "a larger timeout_ms"},
	} {
		err := &tool.StoppedError{Cause: context.DeadlineExceeded, Answered: c.answered, Effect: c.effect}
		got := tool.Classify(&tool.Manifest{Class: c.class}, err)
		if !strings.HasSuffix(got.Message, c.message) || !strings.HasSuffix(got.Fix, c.fix) {
			t.Errorf("%s, answered %t, effect %s: %q, fix %q", c.class, c.answered, c.effect, got.Message, got.Fix)
		}
		if advice := "in Python, os._exit"; strings.Contains(err.Ended(), advice) != c.answered {
			t.Errorf("answered %t: it %s", c.answered, err.Ended())
		}
	}
}

// An error whose effect the tool leaves out says so in its cause, and which code it would have.
func TestUnstatedEffect(t *testing.T) {
	const unstated, instead = "does not state its effect", "with effect none the code would be R-CAP-BUSY"
	for _, c := range []struct {
		class call.EffectClass
		err   tool.Error
		says  []string
	}{
		{call.Pure, tool.Error{}, nil},
		{call.Idempotent, tool.Error{}, []string{unstated}},
		{call.Idempotent, tool.Error{Result: jsontext.Value("{}")}, nil},
		{call.Idempotent, tool.Error{Effect: envelope.EffectUnknown}, nil},
		{call.SideEffectful, tool.Error{}, []string{unstated, instead}},
		{call.SideEffectful, tool.Error{Effect: envelope.EffectApplied}, []string{instead}},
		{call.SideEffectful, tool.Error{Effect: envelope.EffectNone}, nil},
	} {
		c.err.Code = "busy"
		m := &tool.Manifest{Class: c.class, Errors: map[string]tool.ErrorSpec{
			"busy": {Name: "busy", Class: envelope.ClassCapacity, Message: "busy", Fix: "wait"},
		}}
		cause := tool.Classify(m, &c.err).Cause
		for _, part := range []string{unstated, instead} {
			if strings.Contains(cause, part) != slices.Contains(c.says, part) {
				t.Errorf("%s, effect %q: %q", c.class, c.err.Effect, cause)
			}
		}
	}
}

// An error that the manifest does not declare says so, beside what else there is to say.
func TestUndeclaredError(t *testing.T) {
	m := &tool.Manifest{Class: call.Idempotent, Errors: map[string]tool.ErrorSpec{
		"busy": {Name: "busy", Class: envelope.ClassCapacity, Message: "busy", Fix: "wait"},
	}}
	for code, undeclared := range map[string]bool{"busy": false, "oops": true} {
		cause := tool.Classify(m, &tool.Error{Code: code, Message: "m"}).Cause
		if strings.Contains(cause, "`errors` of the manifest declares no \"oops\"") != undeclared ||
			!strings.Contains(cause, "does not state its effect") {
			t.Errorf("%s: %q", code, cause)
		}
	}
}

// The text of a crash, which logs have, says how the tool ended and what it gave as the reason.
func TestCrashSaysTheReason(t *testing.T) {
	for message, want := range map[string]string{
		"": "tool crashed: exit status 1", "no disk": "tool crashed: exit status 1: no disk",
	} {
		if err := (&tool.CrashError{How: "exit status 1", Message: message}); err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// The cause of a crash has the last line of standard error, unless it is long, or the message has the reason.
func TestCrashShowsTheLastLine(t *testing.T) {
	for name, c := range map[string]struct{ message, last, want string }{
		"traceback": {"", "RuntimeError: boom", "exit status 1; standard error ends: RuntimeError: boom"},
		"silent":    {"", "", "exit status 1"},
		"long":      {"", strings.Repeat("x", 300), "exit status 1"},
		"reason":    {"no disk", "error: no disk", "exit status 1"},
	} {
		crash := &tool.CrashError{How: "exit status 1", Message: c.message, Last: c.last}
		if got := tool.Classify(&tool.Manifest{Class: call.Pure}, crash).Cause; got != c.want {
			t.Errorf("%s: cause %q, want %q", name, got, c.want)
		}
	}
}

// The cause of a side-effectful tool that has a lookup, and died, says that none was asked.
func TestCrashSaysThatNoLookupWasAsked(t *testing.T) {
	for _, class := range []call.EffectClass{call.Pure, call.Idempotent, call.SideEffectful} {
		m := &tool.Manifest{Class: class}
		for _, m.Capability.Lookup = range []bool{false, true} {
			got := tool.Classify(m, &tool.CrashError{How: "exit status 1"}).Cause
			if strings.Contains(got, "no lookup was asked, because the executor lives") !=
				(class == call.SideEffectful && m.Capability.Lookup) {
				t.Errorf("%s, lookup %t: cause %q", class, m.Capability.Lookup, got)
			}
		}
	}
}

func TestUnwrap(t *testing.T) {
	cause := errors.New("cause")
	for _, err := range []error{&tool.StartError{Err: cause}, &tool.SinkError{Err: cause},
		&tool.StoppedError{Cause: cause}} {
		if !errors.Is(err, cause) {
			t.Errorf("%T hides its cause", err)
		}
	}
	ctx, cancel := context.WithDeadlineCause(t.Context(), time.Unix(0, 0), cause)
	defer cancel()
	if err := tool.Stopped(ctx, "", ""); !errors.Is(err, cause) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v says either who or why", err)
	}
}

func TestCheck(t *testing.T) {
	good := []interface{ Check() error }{
		tool.Result{Output: jsontext.Value(`null`)},
		&tool.Error{Code: "a_1", Effect: envelope.EffectApplied, Details: jsontext.Value(`{}`), RetryAfter: time.Second},
	}
	bad := []interface{ Check() error }{
		tool.Result{},
		tool.Result{Output: jsontext.Value(`{"a":1,"a":2}`)},
		tool.Result{Output: jsontext.Value(`1`), SideEffects: []jsontext.Value{jsontext.Value(`{`)}},
		tool.Result{Output: jsontext.Value(`1`), Warnings: []string{strings.Repeat("x", 2000)}},
		tool.Result{Output: jsontext.Value(`1`), Warnings: []string{"\xff"}},
		&tool.Error{},
		&tool.Error{Code: strings.Repeat("a", 65)},
		&tool.Error{Code: "a", Effect: "none at all"},
	}
	for _, c := range good {
		if err := c.Check(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range bad {
		if c.Check() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// TestCheckedResultsCanBeRead checks that a result that passes Check fits into a response, and that any other does not
// pass. A caller could not decode such an outcome.
func TestCheckedResultsCanBeRead(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	effects := func(values ...string) (all []jsontext.Value) {
		for _, v := range values {
			all = append(all, jsontext.Value(v))
		}
		return all
	}
	loud := make([]string, envelope.MaxWarnings)
	for i := range loud {
		loud[i] = strings.Repeat("\x01", envelope.MaxMessage)
	}
	one := jsontext.Value("1")
	for name, c := range map[string]struct {
		result tool.Result
		taken  bool
	}{
		"deep output":     {tool.Result{Output: jsontext.Value(nested(ijson.MaxDepth - 1))}, true},
		"too deep output": {tool.Result{Output: jsontext.Value(nested(ijson.MaxDepth))}, false},
		"brackets in a string": {tool.Result{Output: jsontext.Value(`"` + strings.Repeat(`[\"`, ijson.MaxDepth) + `"`)},
			true},
		"deep effect":     {tool.Result{Output: one, SideEffects: effects(`{"a":` + nested(ijson.MaxDepth-3) + `}`)}, true},
		"too deep effect": {tool.Result{Output: one, SideEffects: effects(`{"a":` + nested(ijson.MaxDepth-2) + `}`)}, false},
		"inexact effect":  {tool.Result{Output: one, SideEffects: effects(`{"bytes":9007199254740993}`)}, false},
		"large effect": {tool.Result{Output: one,
			SideEffects: effects(`{"a":"` + strings.Repeat("x", envelope.MaxAside-8) + `"}`)}, true},
		"too large effect": {tool.Result{Output: one,
			SideEffects: effects(`{"a":"` + strings.Repeat("x", envelope.MaxHead) + `"}`)}, false},
		"loud warnings": {tool.Result{Output: one, Warnings: loud}, false},
	} {
		err := c.result.Check()
		if (err == nil) != c.taken {
			t.Errorf("%s: %v", name, err)
		}
		p := envelope.Provenance{ToolID: "t", ToolVersion: "1.0.0", Final: true}
		r := &envelope.Response{CallID: envelope.NoCallID, Status: envelope.Success, Output: c.result.Output, Provenance: p}
		r.SideEffects, r.Warnings = c.result.SideEffects, c.result.Warnings
		body, err := envelope.EncodeResponse(envelope.ContentJSON, r)
		if err != nil {
			t.Fatal(err)
		}
		if _, fault := envelope.DecodeResponse(envelope.ContentJSON, body); (fault == nil) != c.taken {
			t.Errorf("%s: read as %v", name, fault)
		}
	}
}

func TestFunctions(t *testing.T) {
	if got := (envelope.ToolLimits{}).Longest(); got != 10*time.Minute {
		t.Errorf("no limit is %v", got)
	}
}
