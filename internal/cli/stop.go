package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// UntilSignal returns a context that ends with the first SIGINT, SIGTERM or SIGHUP. It ignores SIGHUP if the process
// was started to outlive its terminal. A second signal ends the process at once, so that a process that cannot stop
// does not block the terminal. stop ends the handling of signals.
func UntilSignal() (ctx context.Context, stop context.CancelFunc) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop = signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// MemoryLimit is the size of the process above which [Collect] makes the garbage collector run more often: 1 GiB. A
// dispatcher or executor with a --payload-memory of at most 512 MiB needs less, also in floods (docs/limits.md). If the
// live memory exceeds the limit, garbage collection takes up to half of the CPU time.
const MemoryLimit = 1 << 30

// servingPercent is the GOGC of processes that serve calls.
const servingPercent = 400

// Collect sets the target of the garbage collector: garbage of percent of the live memory, and less if the process
// would exceed limit bytes. The variables GOGC and GOMEMLIMIT in environ take precedence.
func Collect(environ []string, percent int, limit int64) {
	set := func(name string) bool {
		return slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	}
	if !set("GOGC") {
		debug.SetGCPercent(percent)
	}
	if !set("GOMEMLIMIT") {
		debug.SetMemoryLimit(limit)
	}
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

// Main runs a command, ends its context at a signal, and ends the process with its exit code. Most memory of a process
// that serves calls is garbage: with GOGC 100, Go's default, garbage collection took a seventh of the CPU time.
func Main(run func(ctx context.Context) int) {
	Collect(os.Environ(), servingPercent, MemoryLimit)
	ctx, stop := UntilSignal()
	code := run(ctx)
	stop()
	os.Exit(code)
}

// soon is the time after a signal from which on Patience prints its message.
const soon = 300 * time.Millisecond

// Patience prints a message to w, unless ended is called within 300 ms after ctx has ended: the process waits for
// running calls. Without the message, it would seem to hang after Ctrl-C. ended must be called in any case.
func Patience(ctx context.Context, w io.Writer) (ended func()) {
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		select {
		case <-done:
		case <-time.After(soon):
			fmt.Fprintln(w, "stopping: calls in hand have ten seconds to end; another Ctrl-C (or SIGTERM) ends at once")
		}
	})
	return sync.OnceFunc(func() { close(done); telling.Wait() })
}
