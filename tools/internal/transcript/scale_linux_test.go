package transcript

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// used is the processor time that this thread has had.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestCleanScales cleans much of what makes careless code very slow. The limit is of processor time,
// which other work on the machine does not use up, and generous because of the race detector.
func TestCleanScales(t *testing.T) {
	t.Parallel()
	size := 1 << 17
	if testing.Short() {
		size /= 8
	}
	for _, piece := range []string{
		"a", "(", "()", "(a", "[", "[x]", "*", "*a", "<", "<i", "<i>", "<1:", "&amp;", "&", ">> ", "- ", "0:00 ", "00:00:01 ",
		". ", "x. ", "uh ", "the ", "w-", "Anna: ", "Anna: x\n", "Anna: x\n\n", "Anna: x\nBob: um\n", "\n\n", "♪",
		"世。", "あ。」", "<rt>", "{\\an8", "00:00:01.000 --> 00:00:02.000\n", "1\n00:00:01.000 --> 00:00:02.000\nthe the\n\n",
	} {
		t.Run(piece, func(t *testing.T) {
			text := "word. " + strings.Repeat(piece, size/len(piece)) + strings.Repeat(")", 1<<10)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			start := used(t)
			cleanAll(t, text)
			if took := used(t) - start; took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}
