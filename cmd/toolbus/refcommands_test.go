package main

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// The output of a cancel claims no more than the bus knows.
func TestTold(t *testing.T) {
	cancelled := func(effect envelope.Effect) *envelope.Response {
		e := envelope.NewError(envelope.CodeCancelled, "").WithEffect(effect)
		return envelope.Failure("id", e, envelope.Provenance{Final: true}, envelope.Metrics{})
	}
	for says, a := range map[string]envelope.CancelResponse{
		"cancelled before it started": {Phase: "queued",
			Response: cancelled(envelope.EffectNone)},
		"cancelled; no executor said that it was running it": {Phase: "queued",
			Response: cancelled(envelope.EffectUnknown)},
		"cancelled while it ran; its processes were killed": {Phase: "running",
			Response: cancelled(envelope.EffectUnknown)},
		"the call has ended already, with P-PRECOND-CANCELLED, effect none": {Phase: "decided",
			Response: cancelled(envelope.EffectNone)},
		"the call has ended already, with success":                  {Phase: "decided", Response: &envelope.Response{}},
		"you no longer wait for it; the call goes on for its owner": {Phase: "detached"},
	} {
		if got := told(a); got != says {
			t.Errorf("it says %q, want %q", got, says)
		}
	}
}

// ranRef makes a call and returns its reference.
func (s shell) ranRef(args ...string) string {
	s.t.Helper()
	code, _, stderr := s.do(append([]string{"call"}, args...)...)
	_, rest, found := strings.Cut(stderr, " · ref ")
	if code != 0 || !found {
		s.t.Fatalf("%v: exit %d: %s", args, code, stderr)
	}
	return strings.TrimSpace(rest)
}

// An operator asks about the call of an agent, and so does the user of `toolbus dev`. Another agent learns nothing, and
// neither does a user that names another actor.
func TestOperatorAsksAboutCalls(t *testing.T) {
	bus, operator := deployed(t)
	dev, _ := startDev(t, t.TempDir())
	ada := bus.ranRef(append([]string{"hello", "--input", `"hi"`}, bus.token(operator, "ada")...)...)
	eve := dev.ranRef("play", "--input", `{"say":"hi"}`, "--actor", "agent://eve")
	for name, c := range map[string]struct {
		bus   shell
		ref   string
		flags []string
		sees  bool
	}{
		"operator":      {bus, ada, []string{"--credentials", operator}, true},
		"agent":         {bus, ada, bus.token(operator, "bob"), false},
		"user of dev":   {dev, eve, nil, true},
		"actor of dev":  {dev, eve, []string{"--actor", "agent://mallory"}, false},
		"tenant of dev": {dev, eve, []string{"--tenant", "acme"}, false},
	} {
		for command, says := range map[string]string{"why": "succeeded", "trace": "success", "result": "hi"} {
			code, out, stderr := c.bus.do(append([]string{command, c.ref}, c.flags...)...)
			if (code == 0) != c.sees || strings.Contains(out, says) != c.sees ||
				strings.Contains(stderr, "P-PRECOND-NOT_FOUND") == c.sees {
				t.Errorf("%s: %s: exit %d: %s%s", name, command, code, out, stderr)
			}
		}
	}
}

// The note in a long standard error names a command that prints all of it, also to the caller of another tenant.
func TestNoteOfStderr(t *testing.T) {
	tools, program := sayTools(t)
	write(t, program, "#!/bin/sh\nseq 2000 >&2\nexit 1\n")
	s, stop, _ := startDevOf(t, tools, t.TempDir(), "--data-dir", t.TempDir(), "--port", "0")
	defer stop()
	_, _, stderr := s.do("call", "say", "--attempts", "1", "--tenant", "acme", "--actor", "agent://me")
	_, rest, _ := strings.Cut(stderr, "`toolbus result ")
	command, _, _ := strings.Cut(rest, "`")
	args := append([]string{"result"}, strings.Fields(strings.ReplaceAll(command, "'", ""))...) // as a shell reads it
	if _, stdout, failed := s.do(args...); !strings.Contains(stdout, `\n1000\n`) {
		t.Errorf("%q: %s%s, after %s", args, stdout, failed, stderr)
	}
}
