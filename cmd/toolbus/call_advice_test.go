package main

import (
	"strings"
	"testing"
)

// A call that timed out names the flag for more time and the longest time of its tool. A call with a second attempt
// says why that was made.
func TestAdviceAfterCall(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	says := func(want string, args ...string) string {
		t.Helper()
		_, stdout, stderr := s.do(args...)
		if !strings.Contains(stderr, want) {
			t.Errorf("%v does not say %q:\n%s%s", args, want, stdout, stderr)
		}
		return stderr
	}
	const longer = "with a longer --timeout, at most 1m0s, the timeout_ms_max of the tool\n"
	out := says(longer, "call", "play", "--input", `{"work_ms":30000}`, "--timeout", "400ms", "--attempts", "1")
	_, ref, _ := strings.Cut(out, " · ref ")
	says(longer, "result", strings.TrimSpace(ref))
	says("attempt 2 was made because attempt 1 ended with R-UPSTREAM",
		"call", "play", "--input", `{"fail":"upstream"}`, "--attempts", "2")
	once := says("R-UPSTREAM", "call", "play", "--input", `{"fail":"upstream","say":"once"}`, "--attempts", "1")
	if strings.Contains(once, "was made because") {
		t.Error(once)
	}
}
