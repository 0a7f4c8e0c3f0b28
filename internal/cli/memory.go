package cli

import (
	"runtime/debug"
	"slices"
	"strings"
)

// heapGrowth is how far, in per cent, the heap may grow beyond what is alive before it is collected.
const heapGrowth = 400

// TuneMemory sets how often memory is collected, unless GOGC does. What is alive in these processes
// is a few megabytes; collecting at twice that, as is the default, would be collecting all the time
// under load, a seventh of all CPU time.
func TuneMemory(environ []string) {
	if !slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, "GOGC=") }) {
		debug.SetGCPercent(heapGrowth)
	}
}
