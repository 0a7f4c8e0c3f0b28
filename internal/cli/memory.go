package cli

import "runtime"

// ballast is how much memory is allocated and never touched.
const ballast = 64 << 20

// Ballast lets more garbage gather before it is collected, until the function it returns is called.
// What is alive in these processes is a few megabytes, and memory is collected when there is as much
// garbage: under load that is all the time, a sixth of all CPU time. The ballast counts as alive,
// but is never resident, because nobody touches it; and a heap that is large by itself does not
// grow further by it, as it would with a higher GOGC.
func Ballast() (release func()) {
	b := make([]byte, ballast)
	return func() { runtime.KeepAlive(b) }
}
