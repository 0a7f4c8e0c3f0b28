package main

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
)

// What is stored is there after a start with tokens and one without, whichever came first. Whoever is not its user is
// let in by the one that is open alone, and there without any folder of the user's.
func TestDevOpen(t *testing.T) {
	state, home := t.TempDir(), t.TempDir()
	for i, flags := range [][]string{{"--open"}, nil, {"--open"}, nil} {
		s, stop, _ := startDevAt(t, home, state, "0", flags...)
		code, _, stderr := s.do("call", "play", "--input", `{"say":"once"}`, "--key", "dev-test-0123456789abcdef")
		if code != 0 || strings.Contains(stderr, "replayed") != (i > 0) {
			t.Errorf("start %d: exit %d: %s", i, code, stderr)
		}
		conn, err := toolbus.Connect(t.Context(), s.url, toolbus.Options{})
		if open := len(flags) > 0; (err == nil) != open {
			t.Errorf("start %d: %v", i, err)
		}
		if conn != nil {
			conn.Close()
		}
		stop()
	}
}
