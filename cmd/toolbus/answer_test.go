package main

import (
	"strings"
	"testing"
)

// The two flags of an answer belong together, and are checked before the command connects.
func TestAnswerFlags(t *testing.T) {
	for line, says := range map[string]string{
		"--answer {}":                        "--answer needs --answer-to REF",
		"--answer-to x.y":                    "--answer-to needs --answer JSON",
		"--answer-to x.y --answer {":         "--answer cannot be read:",
		"--answer-to x.y --answer @/no/file": "--answer: open /no/file",
		"--answer-to x.y --answer - --input -": "--input and --answer cannot both be " +
			"standard input",
	} {
		args := append([]string{"call", "play"}, strings.Fields(line)...)
		if code, _, stderr := (shell{t: t, url: "nats://127.0.0.1:1"}).do(args...); code != exitUsage ||
			!strings.Contains(stderr, says) {
			t.Errorf("%s: exit %d, want %q: %s", line, code, says, stderr)
		}
	}
}

// An answer to a call that asked nothing is refused, and its tool does not run.
func TestAnswersNothing(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	code, _, stderr := s.do("call", "play", "--answer-to", "play.0123456789abcdefghijklmnopqrstuv", "--answer", "{}")
	if code != exitInvalid || !strings.Contains(stderr, "I-REQ-INPUT_STATE") || !strings.Contains(stderr, "effect: none") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
