package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Calls that have ended are listed from the record, the newest first, and counted by tool with errors and times.
func TestEndedCalls(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	first := s.ranRef("play", "--input", `{"say":"hi","work_ms":300}`)
	s.ranRef("play", "--input", `{"say":"hi"}`, "--actor", "agent://eve")
	if code, _, _ := s.do("call", "play", "--input", `{"fail":"broken"}`); code != exitTerminal {
		t.Fatalf("exit %d", code)
	}
	listed := func(flags string) (all []endedCall) {
		t.Helper()
		out := s.must(append([]string{"calls", "list", "--json"}, strings.Fields(flags)...)...)
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := listed("")
	if len(all) != 3 || all[2].Ref != first || all[0].Status != envelope.TerminalError || all[0].DecidedBy != "executor" ||
		!slices.IsSortedFunc(all, func(x, y endedCall) int { return y.Ended.Compare(x.Ended) }) ||
		all[2].TookMS == nil || *all[2].TookMS < 300 {
		t.Fatalf("%+v", all)
	}
	for flags, want := range map[string]int{
		"--tool play": 3, "--tool other": 0, "--actor agent://eve": 1, "--tenant acme": 0, "--status success": 2,
		"--code " + string(all[0].Code): 1, "--slow 300ms --since 1h": 1, "--slow 1h": 0, "--since 0s": 0, "--limit 2": 2,
		"--code D-DATA": 1, "--code S-TOOL": 0,
	} {
		if flags == "--slow 300ms --since 1h" { // others may be slow, too
			if got := listed(flags); len(got) < want || got[len(got)-1].Ref != first {
				t.Errorf("%s: %+v", flags, got)
			}
		} else if got := listed(flags); len(got) != want {
			t.Errorf("%s: %d calls: %+v", flags, len(got), got)
		}
	}
	text := s.must("calls", "list", "--limit", "1")
	if !strings.HasPrefix(text, "ENDED ") || !strings.Contains(text, "Z  "+string(all[0].Code)) ||
		!strings.HasSuffix(text, "  agent://local  "+all[0].Ref+"\n") || strings.Count(text, "\n") != 2 {
		t.Error(text)
	}
	s.do("call", "play", "--input", `{"say":1}`)
	const denied = "audit replay --event tool_denied"
	none := s.must("calls", "list", "--status", "invalid_request")
	if !strings.HasSuffix(none, "refused calls are not listed: toolbus "+denied+"\n") {
		t.Error(none)
	}
	refused := s.must(strings.Fields(denied + " --status invalid_request")...)
	if !strings.Contains(refused, "I-REQ-SCHEMA") {
		t.Error(refused)
	}
	s.counted(first)
}

// counted checks the statistics of the three calls.
func (s shell) counted(first string) {
	s.t.Helper()
	var stats []toolStats
	if err := json.Unmarshal([]byte(s.must("stats", "--since", "1h", "--json")), &stats); err != nil {
		s.t.Fatal(err)
	}
	if len(stats) != 1 || stats[0].Tool != "play" || stats[0].Calls != 3 || stats[0].Success != 2 ||
		len(stats[0].Errors) != 1 || stats[0].Errors["D-DATA"] != 1 || *stats[0].P50 > *stats[0].P95 || *stats[0].P99 < 300 {
		s.t.Errorf("%s: %+v", first, stats)
	}
	text := s.must("stats", "--tool", "play")
	if _, row, _ := strings.Cut(text, "\n"); !strings.HasPrefix(text, "TOOL ") ||
		!strings.HasPrefix(strings.Join(strings.Fields(row), " "), "play 3 2 ") || !strings.Contains(row, "D-DATA 1") {
		s.t.Error(text)
	}
	if none := s.must("stats", "--since", "0s"); none != "no call has ended in that time\n" {
		s.t.Error(none)
	}
	const near = "no call of plya has ended in that time; did you mean \"play\"?\n"
	if none := s.must("stats", "--tool", "plya"); none != near || !strings.HasPrefix(text, "TOOL  ATTEMPTS ") {
		s.t.Error(none, text)
	}
	if code, _, stderr := s.do("stats", "play"); code != exitUsage || !strings.Contains(stderr, "--tool TOOL") {
		s.t.Errorf("exit %d: %s", code, stderr)
	}
	if code, _, stderr := s.do("stats", "--since", "soon"); code != exitUsage || !strings.Contains(stderr, "not a time") {
		s.t.Errorf("exit %d: %s", code, stderr)
	}
}

// A percentile is the smallest time that so many of the calls did not exceed.
func TestPercentiles(t *testing.T) {
	for n, want := range map[int][3]int64{1: {1, 1, 1}, 2: {1, 2, 2}, 100: {50, 95, 99}, 200: {100, 190, 198}} {
		s := toolStats{}
		for i := range n {
			s.took = append(s.took, int64(n-i))
		}
		if s.rank(); [3]int64{*s.P50, *s.P95, *s.P99} != want {
			t.Errorf("of %d: %d, %d, %d", n, *s.P50, *s.P95, *s.P99)
		}
	}
}
