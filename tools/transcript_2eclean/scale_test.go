package main

import (
	"strings"
	"testing"
	"time"
)

// TestCleanScales cleans much of what makes careless code very slow. The limit is generous, because
// the race detector and other work on the machine are too.
func TestCleanScales(t *testing.T) {
	t.Parallel()
	for _, piece := range []string{
		"a", "(", "()", "(a", "[", "[x]", "*", "*a", "<", "<i", "<i>", "<1:", "&amp;", "&", ">> ", "- ", "0:00 ", "00:00:01 ",
		". ", "x. ", "uh ", "the ", "w-", "Anna: ", "Anna: x\n", "Anna: x\n\n", "Anna: x\nBob: um\n", "\n\n", "♪",
		"世。", "あ。」", "<rt>", "{\\an8", "00:00:01.000 --> 00:00:02.000\n", "1\n00:00:01.000 --> 00:00:02.000\nthe the\n\n",
	} {
		t.Run(piece, func(t *testing.T) {
			text := "word. " + strings.Repeat(piece, 1<<18/len(piece)) + strings.Repeat(")", 1<<10)
			start := time.Now()
			cleanAll(t, text)
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}
