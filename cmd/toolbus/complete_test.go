package main

import (
	"slices"
	"strings"
	"testing"
)

// completed returns the words that the shell offers for a command line, whose last word may be incomplete.
func (s shell) completed(line string, flags ...string) (words []string) {
	s.t.Helper()
	args := append([]string{"__complete"}, flags...)
	_, out, _ := s.do(append(args, strings.Split(line, " ")...)...)
	for w := range strings.Lines(out) {
		if w = strings.TrimSpace(w); !strings.HasPrefix(w, ":") {
			words = append(words, cutWord(w))
		}
	}
	return words
}

// The shell completes references of calls, runs, lanes, roles and locks for an operator. An agent gets references of
// its open calls alone, and no completion leaves a refusal on record.
func TestCompletion(t *testing.T) {
	s, operator := deployed(t)
	s.must("policy", "push", shifts(t, "day"), "--credentials", operator)
	ada := s.token(operator, "ada", "--role-id", "agent")
	s.awaitList([]string{"hello"}, ada...)
	for _, id := range []string{"nightly-1", "nightly-2"} {
		s.must("runs", "start", id, "--calls-of", "agent://ada", "--credentials", operator)
	}
	s.must("runs", "pause", "nightly-2", "--credentials", operator)
	s.must("lock", "--lane", "night", "--reason", "INC-7", "--credentials", operator)
	ref := s.ranRef(append([]string{"hello", "--lane", "day", "--input", `"hi"`}, ada...)...)
	s.must("audit", "replay", "--credentials", operator) // the call is on record
	for line, want := range map[string][]string{
		"why ": {ref}, "trace ": {ref}, "result ": {ref},
		"audit replay --call ": {ref}, "policy explain ": {ref}, "cancel ": nil,
		"runs pause ": {"nightly-1"}, "runs resume ": {"nightly-2"}, "runs show ": {"nightly-1", "nightly-2"},
		"runs close nightly-1 ": {"nightly-2"}, "call hello --run ": {"nightly-1", "nightly-2"},
		"audit replay --run ": {"nightly-1", "nightly-2"}, "unlock --lane ": {"night"}, "unlock --tool ": nil,
		"lock --lane ": {"day", "night"}, "runs start --lane ": {"day", "night"}, "call hello --lane ": {"day", "night"},
		"runs start --role-id ": {"agent", "reader"}, "audit replay --role ": {"agent", "reader"}, "repair accept ": nil,
	} {
		got := s.completed(line, "--credentials", operator)
		if !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("operator: %s: %q, want %q", line, got, want)
		}
		if got := s.completed(line, ada...); len(got) > 0 {
			t.Errorf("agent: %s: %q", line, got)
		}
	}
	if denied := s.must("audit", "replay", "--event", "tool_denied", "--credentials", operator); denied != "" {
		t.Errorf("on record:\n%s", denied)
	}
}
