package admin

import (
	"slices"
	"strings"
)

// causesFirst returns the checks with those first that say that the server stores nothing, or that dispatchers admit
// nothing. The fixes of checks that may have failed because of that name them. Heartbeats and records, for example, are
// writes, too.
func causesFirst(checks []Check) []Check {
	at := slices.IndexFunc(checks, isCause)
	if at < 0 {
		return checks
	}
	name := checks[at].Name
	for i, c := range checks {
		if c.Status == CheckFailed && isConsequence(c) {
			checks[i].Fix = "first mend \"" + name + "\", which may be the cause; if it still fails: " + c.Fix
		}
	}
	slices.SortStableFunc(checks, func(a, b Check) int { return rank(a) - rank(b) })
	return checks
}

func isCause(c Check) bool {
	return c.Status == CheckFailed && (c.Name == "writes" || c.Name == "call log")
}

func isConsequence(c Check) bool {
	return c.Name == "executors" || c.Name == "audit record" || strings.HasPrefix(c.Name, "pool ")
}

// rank orders checks: the server, causes, and others.
func rank(c Check) int {
	switch {
	case c.Name == "server":
		return 0
	case isCause(c):
		return 1
	}
	return 2
}
