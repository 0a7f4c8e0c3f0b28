package cli

import "runtime"

// ballast is how much memory is allocated and never touched.
const ballast = 64 << 20

// Ballast lets more garbage gather before it is collected, until the function it returns is called.
// What is alive in these processes is a few megabytes, and memory is collected when there is as much
// garbage: under load that is all the time, a seventh of their CPU time (docs/performance.md). The
// ballast counts as alive, but is never resident, because nobody touches it. A higher GOGC would save
// as much, but let a heap that is large by itself grow to several times its size.
func Ballast() (release func()) {
	b := make([]byte, ballast)
	return func() { runtime.KeepAlive(b) }
}
