package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// An operator locks and unlocks, with a reason that callers see, and both are on record. An agent may do neither.
func TestLock(t *testing.T) {
	s, operator := deployed(t)
	agent := filepath.Join(t.TempDir(), "agent.token")
	s.must("credentials", "issue", "--actor", "agent://a", "--out", agent, "--credentials", operator)
	calls := func(want int, said string) {
		t.Helper()
		code, stdout, stderr := s.do("call", "hello", "--input", `"you"`, "--credentials", agent, "--timeout", "20s")
		if code != want || !strings.Contains(stdout+stderr, said) {
			t.Errorf("exit %d, want %d and %q: %s%s", code, want, said, stdout, stderr)
		}
	}
	calls(0, "hello you")
	for _, line := range []string{"lock --all --reason mine", "unlock --all --reason mine", "lock"} {
		code, _, stderr := s.do(append(strings.Fields(line), "--credentials", agent)...)
		if code != exitTerminal || !strings.Contains(stderr, "A-AUTH-FORBIDDEN") {
			t.Errorf("an agent: %s: exit %d: %s", line, code, stderr)
		}
	}
	if said := s.must("lock", "--credentials", operator); said != "no lock is in force\n" {
		t.Error(said)
	}
	said := s.must("lock", "--tool", "hello", "--reason", "see INC-7", "--credentials", operator)
	if said != "locked: the tool hello; 1 lock is in force\n" {
		t.Error(said)
	}
	calls(exitRetryable, "P-PRECOND-LOCKED")
	calls(exitRetryable, "see INC-7")
	calls(exitRetryable, "toolbus unlock --tool hello")
	id, _ := s.refusedID("hello", "--input", `"you"`, "--credentials", agent)
	if said := s.must("why", id, "--credentials", operator); !strings.Contains(said,
		"lock of the tool hello by default/") || !strings.Contains(said, ": see INC-7") {
		t.Error(said)
	}
	if said := s.must("lock", "--credentials", operator); !strings.Contains(said, "the tool hello") ||
		!strings.Contains(said, "see INC-7") {
		t.Error(said)
	}
	var a envelope.LocksResponse
	said = s.must("lock", "--json", "--tool", "wait", "--reason", "r", "--credentials", operator)
	err := json.Unmarshal([]byte(said), &a)
	if err != nil || !a.Changed || len(a.Locks) != 2 || a.Locks[1].Tool != "wait" {
		t.Errorf("%s: %v", said, err)
	}
	s.must("unlock", "--tool", "hello", "--reason", "all is well", "--credentials", operator)
	for since := time.Now(); ; { // executors learn of it within a second
		code, _, _ := s.do("call", "hello", "--input", `"you"`, "--credentials", agent)
		if code == 0 {
			break
		}
		if code != exitRetryable || time.Since(since) > 10*time.Second {
			t.Fatalf("unlocked, and a call exits with %d", code)
		}
	}
	events := s.must("audit", "replay", "--json", "--credentials", operator)
	for _, want := range []string{
		`"event":"lock_set"`, `"event":"lock_cleared"`, `"reason":"all is well"`, `"P-PRECOND-LOCKED"`,
	} {
		if !strings.Contains(events, want) {
			t.Errorf("the record has no %s", want)
		}
	}
}

// A lock with --kill cancels the call that runs, and says what it may have done.
func TestLockKill(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	for _, form := range []string{"", "--json"} {
		ref, end := s.begin(t.Context(), `{"work_ms":30000}`, "--attempts", "1")
		said := s.must(strings.Fields("lock --tool play --reason INC-7 --kill " + form)...)
		for _, want := range []string{ref, "none", "killed"} {
			if !strings.Contains(said, want) {
				t.Errorf("no %q in %s", want, said)
			}
		}
		if code := end(); code != exitRetryable {
			t.Errorf("the killed call exits with %d", code)
		}
		if _, result, _ := s.do("result", ref, "--json"); !strings.Contains(result, "INC-7") {
			t.Errorf("its caller is told %s", result)
		}
		s.must("unlock", "--tool", "play", "--reason", "all is well")
		s.awaitUnlocked()
	}
}

// awaitUnlocked waits until executors run calls of the tool play again: they learn of it within a second.
func (s shell) awaitUnlocked() {
	for since := time.Now(); ; {
		code, _, stderr := s.do("call", "play", "--input", "{}")
		if code == 0 {
			return
		}
		if code != exitRetryable || time.Since(since) > 10*time.Second {
			s.t.Fatalf("unlocked, and a call exits with %d: %s", code, stderr)
		}
	}
}

// Mistakes at the command line say what to do.
func TestLockMistakes(t *testing.T) {
	s, operator := deployed(t)
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"lock --kill", 2, "--tool TOOL"},
		{"unlock --kill", 2, "--kill"},
		{"lock --tool hello", 2, "--reason TEXT"},
		{"lock --reason r", 2, "--tool TOOL"},
		{"unlock --reason r", 2, "--tool TOOL"},
		{"lock --all --tool hello --reason r", 2, "name one target"},
		{"lock hello", 2, "`toolbus lock --tool hello --reason TEXT`"},
		{"unlock hello --reason r", 2, "`toolbus unlock --tool hello --reason TEXT`"},
		{"lock --tool helo --reason r", exitInvalid, `has no tool "helo"`},
		{"lock --lane nigth --reason r", exitInvalid, `has no lane "nigth"`},
		{"unlock --tool hello --reason r", 1, "no lock of the tool hello is in force"},
	} {
		code, stdout, stderr := s.do(append(strings.Fields(c.line), "--credentials", operator)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: exit %d: %s%s, want %d and %q", c.line, code, stdout, stderr, c.code, c.want)
		}
	}
}
