package main

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// Calls are printed once each as they end, those that the flags select. Those that had ended before are not.
func TestCallsWatch(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	before := s.ranRef("play", "--input", `{"say":"before"}`, "--actor", "agent://eve")
	all := s.live("calls watch --json", nil)
	slow := s.live("calls watch --actor agent://eve --tool play --slow 2s", nil)
	failed := s.live("calls watch --status terminal_error --json", nil)
	for all.said() == "" || slow.said() == "" || failed.said() == "" { // they have to begin
		s.ranRef("play", "--input", `{"work_ms":2000}`, "--actor", "agent://eve")
		s.do("call", "play", "--input", `{"fail":"broken"}`)
	}
	quick := s.ranRef("play", "--input", `{"say":"quick"}`, "--actor", "agent://eve")
	long := s.ranRef("play", "--input", `{"work_ms":2100}`, "--actor", "agent://eve")
	s.ranRef("play", "--input", `{"work_ms":2200}`)
	_, _, stderr := s.do("call", "play", "--input", `{"fail":"broken"}`)
	_, broken, _ := strings.Cut(stderr, " · ref ")
	broken = strings.TrimSpace(broken)
	last := s.ranRef("play", "--input", `{"work_ms":2000}`, "--actor", "agent://eve")
	for watched, want := range map[*live]struct{ until, once, none string }{
		all: {last, quick, before}, slow: {last, long, quick}, failed: {broken, broken, long},
	} {
		watched.until(func(said string) bool { return strings.Contains(said, want.until) })
		said := watched.said()
		if strings.Count(said, want.once) != 1 || strings.Contains(said, want.none) || watched != all &&
			(strings.Contains(said, broken) != (watched == failed)) {
			t.Errorf("%+v:\n%s", want, said)
		}
		if code := watched.stop(); code != 0 {
			t.Errorf("exit %d", code)
		}
	}
	for line := range strings.Lines(all.said()) {
		var c endedCall
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.TookMS == nil || c.Tool != "play" ||
			c.Ref == long && *c.TookMS < 2100 {
			t.Errorf("%v: %s", err, line)
		}
	}
	code, _, says := s.do("calls", "watch", "--code", "nosuch")
	if code != exitUsage || !strings.Contains(says, "no code") {
		t.Errorf("exit %d: %s", code, says)
	}
}
