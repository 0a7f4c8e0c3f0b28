package cli

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
)

// MemoryLimit is the size of the process above which [Collect] makes the garbage collector run more often: 1 GiB. A
// dispatcher or executor with a --payload-memory of at most 512 MiB needs less, also in floods (docs/limits.md). If the
// live memory exceeds the limit, garbage collection takes up to half of the CPU time.
const MemoryLimit = 1 << 30

// servingPercent is the GOGC of processes that serve calls.
const servingPercent = 400

// Collect sets the target of the garbage collector: garbage of percent of the live memory, and less if the process
// would exceed limit bytes. The variables GOGC and GOMEMLIMIT in environ take precedence.
func Collect(environ []string, percent int, limit int64) {
	if !isSet(environ, "GOGC") {
		debug.SetGCPercent(percent)
	}
	if !isSet(environ, "GOMEMLIMIT") {
		debug.SetMemoryLimit(limit)
	}
}

func isSet(environ []string, name string) bool {
	return slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// thrifty runs read, which leaves much garbage that is never needed again, with a GOGC of at most 100 (Go's default),
// and returns the garbage to the operating system. A dispatcher that has read 5,000 tools has 76 MB then, else 155 MB.
func thrifty(read func() error) error {
	percent := debug.SetGCPercent(100)
	if percent >= 0 && percent < 100 { // of the variable GOGC; below 0 it is off
		debug.SetGCPercent(percent)
	}
	defer debug.FreeOSMemory()
	defer debug.SetGCPercent(percent)
	return read()
}

// mostGarbage is the number of bytes of garbage that a process with less live memory may have with [boundGarbage]. When
// a flood asks for large answers, a dispatcher has 100 MB of live memory; with servingPercent it took 480 MB.
const mostGarbage = 160 << 20

// boundGarbage sets the target of the garbage collector after each collection, until ctx ends. It permits garbage of
// servingPercent of the live memory, but no more than mostGarbage or the live memory, whichever is larger. If environ
// has the variable GOGC, it does nothing.
func boundGarbage(ctx context.Context, environ []string) {
	if isSet(environ, "GOGC") {
		return
	}
	live, now := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, servingPercent
	afterCollections(ctx, func() {
		metrics.Read(live)
		if percent := garbagePercent(live[0].Value.Uint64()); percent != now { // setting it stops all goroutines shortly
			now = percent
			debug.SetGCPercent(percent)
		}
	})
}

// garbagePercent returns the GOGC for a number of live bytes, in steps of ten.
func garbagePercent(live uint64) int {
	return int(min(servingPercent, max(100, mostGarbage*10/max(live, 1)*10)))
}

// afterCollections calls do after each garbage collection, one call at a time, until ctx ends.
func afterCollections(ctx context.Context, do func()) {
	next := func(struct{}) {
		if ctx.Err() == nil {
			do()
			afterCollections(ctx, do)
		}
	}
	runtime.AddCleanup(new([16]byte), next, struct{}{}) // 16 bytes: the runtime collects smaller ones together
}
