package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// namedRuns writes a policy in which the role agent may call hello by day, in runs that calls name.
func namedRuns(t *testing.T, comment string) string {
	t.Helper()
	dir := policyFolder(t, "day")
	text := "# " + comment + "\nlanes: [{lane_id: day, allowed_tools: [hello]}, " +
		"{lane_id: night, allowed_tools: [hello]}]\n"
	if err := os.WriteFile(filepath.Join(dir, "policy/lanes.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Runs at the command line: an agent starts and closes its own, an operator every run, and a push says how many it
// stops.
func TestRunsOnABus(t *testing.T) {
	s, operator := deployed(t)
	as := func(line string, credentials string) []string {
		return append(strings.Fields(line), "--credentials", credentials)
	}
	agent := filepath.Join(t.TempDir(), "agent.token")
	s.must(as("credentials issue --actor agent://a --scope run:start --out "+agent, operator)...)
	if said := s.must(as("policy push "+namedRuns(t, "first"), operator)...); strings.Contains(said, "active run") {
		t.Errorf("the first policy stops runs: %s", said)
	}
	calls := func(run string, want int, said string) {
		t.Helper()
		line := append(as("call hello --lane day --timeout 20s --run "+run, agent), "--input", `"you"`)
		for since := time.Now(); ; { // a push is known within a second
			code, stdout, stderr := s.do(line...)
			if code == want && strings.Contains(stdout+stderr, said) {
				return
			}
			if time.Since(since) > 5*time.Second {
				t.Fatalf("in %s: exit %d, want %d and %q: %s%s", run, code, want, said, stdout, stderr)
			}
		}
	}
	if said := s.must(as("runs start r1 --reason nightly", agent)...); said != "r1\n" {
		t.Error(said)
	}
	s.must(as("runs start r2 --calls-of agent://a --calls-of agent://b --role-id agent --lane day", operator)...)
	calls("r1", 0, "hello you")
	calls("r2", 0, "hello you")
	calls("r3", exitTerminal, "P-PRECOND-RUN_UNKNOWN")
	if said := s.must(as("runs pause r1 r2", operator)...); said != "run r1: paused\nrun r2: paused\n" {
		t.Error(said)
	}
	calls("r1", exitTerminal, "the run is paused")
	if said := s.must(as("runs resume r1", operator)...); said != "run r1: resumed\n" {
		t.Error(said)
	}
	code, stdout, stderr := s.do(as("policy push --json "+namedRuns(t, "second"), operator)...)
	if code != 0 || !strings.Contains(stdout, `"runs_stopped": 1`) || !strings.Contains(stderr, "1 active run is pinned") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	calls("r1", exitTerminal, "P-PRECOND-POLICY_VERSION")
	for _, line := range []string{"runs resume r2", "runs show r1"} {
		if code, _, stderr := s.do(as(line, operator)...); code != 0 || !strings.Contains(stderr, "is pinned to revision ") ||
			!strings.Contains(stderr, "so its calls are refused: `toolbus runs repin`") {
			t.Errorf("%s: exit %d: %s", line, code, stderr)
		}
	}
	s.must(as("runs pause r2", operator)...)
	s.must(as("runs repin r1 r2 --reason wanted", operator)...)
	calls("r1", 0, "hello you")
	var all []envelope.PolicyVersion
	if err := json.Unmarshal([]byte(s.must(as("policy history --json", operator)...)), &all); err != nil || len(all) < 2 {
		t.Fatalf("%v: %+v", err, all)
	}
	back := as("policy rollback "+fmtRevision(all[1]), operator)
	if code, _, stderr := s.do(back...); code != 0 || !strings.Contains(stderr, "1 active run is pinned to revision "+
		fmtRevision(all[0])+": the new set stops it, and `toolbus runs repin` moves it to that set") {
		t.Errorf("rollback: exit %d: %s", code, stderr)
	}
	s.must(as("runs repin r1 r2", operator)...)
	calls("r1", 0, "hello you")
	stdout = s.must(as("policy push --json --repin "+namedRuns(t, "third"), operator)...)
	if !strings.Contains(stdout, `"runs_stopped": 1`) || !strings.Contains(stdout, `"runs_repinned": 1`) {
		t.Error(stdout)
	}
	calls("r1", 0, "hello you")
	if said := s.must(as("runs close r1 --reason done", agent)...); said != "run r1: closed\n" {
		t.Error(said)
	}
	if said := s.must(as("runs close r1", agent)...); said != "run r1: closed already\n" {
		t.Error(said)
	}
	s.wantRuns(t, operator)
	for line, want := range map[string]string{
		"runs list": "A-AUTH-FORBIDDEN", "runs show r1": "A-AUTH-FORBIDDEN", "runs pause r2": "A-AUTH-FORBIDDEN",
		"runs close r2": "P-PRECOND-RUN_UNKNOWN", "runs start --role-id boss": "A-AUTH-SCOPE",
	} {
		if code, _, stderr := s.do(as(line, agent)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("an agent: %s: exit %d: %s", line, code, stderr)
		}
	}
	if code, _, stderr := s.do(as("runs resume r1 nosuch", operator)...); code != 1 ||
		!strings.Contains(stderr, "run r1: ") || !strings.Contains(stderr, "run nosuch: ") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// wantRuns checks what an operator sees of the runs of TestRunsOnABus.
func (s shell) wantRuns(t *testing.T, operator string) {
	t.Helper()
	said := s.must("runs", "list", "--run-state", "closed", "--credentials", operator)
	if lines := strings.Split(said, "\n"); !strings.HasPrefix(said, "RUN ") || len(lines) != 3 ||
		!strings.HasPrefix(lines[1], "r1 ") || !strings.Contains(lines[1], "agent://a") {
		t.Error(said)
	}
	if said := s.must("runs", "list", "--tenant", "other", "--credentials", operator); said != "no run matches\n" {
		t.Error(said)
	}
	var all []envelope.Run
	said = s.must("runs", "list", "--json", "--credentials", operator)
	if err := json.Unmarshal([]byte(said), &all); err != nil || len(all) != 2 {
		t.Errorf("%s: %v", said, err)
	}
	said = s.must("runs", "show", "r1", "--credentials", operator)
	for _, want := range []string{
		"state    closed", "default/agent://a", "succeeded  hello", "denied", "P-PRECOND-RUN_STATE",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	var shown shownRun
	said = s.must("runs", "show", "r1", "--json", "--credentials", operator)
	if err := json.Unmarshal([]byte(said), &shown); err != nil || shown.ID != "r1" || len(shown.Segments) < 5 {
		t.Errorf("%s: %v", said, err)
	}
}
