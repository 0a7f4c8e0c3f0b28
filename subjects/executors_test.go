package subjects

import (
	"strings"
	"testing"
)

// An executor is answered below the pool and instance of its own subject, whatever word it names.
func TestDeskAnswer(t *testing.T) {
	long := strings.Repeat("p", 120) // a name that its subject has a digest of
	for _, pool := range []string{"default", "gpu pool", long} {
		to, ok := ExecutorAnswer(ExecutorRequest(OpLog, pool, "e-1"), "w0_-")
		if want := ExecutorAnswers(pool, "e-1") + "w0_-"; !ok || to != want {
			t.Errorf("pool %.10q: %q, %v, want %q", pool, to, ok, want)
		}
	}
	own := ExecutorRequest(OpLog, "default", "e-1")
	for _, word := range []string{"", "a.b", "*", ">", "a b", "a\r\nPUB x 0", strings.Repeat("w", 101)} {
		if to, ok := ExecutorAnswer(own, word); ok {
			t.Errorf("the word %q leads to %q", word, to)
		}
	}
	for _, subject := range []string{ExecutorReply("default", "e-1", "w"), Kill("id"), Call("t", "a", "tool"),
		"tb.exe.p"} {
		if to, ok := ExecutorAnswer(subject, "w"); ok {
			t.Errorf("a question on %q is answered at %q", subject, to)
		}
	}
}
