package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// UntilSignal returns a context that ends with the first SIGINT, SIGTERM or, unless the process was
// started to outlive its terminal, SIGHUP, which lets a process end in order. The second one ends it at
// once: a process that cannot end in order must not hold on to the terminal. stop ends the watch.
func UntilSignal() (ctx context.Context, stop context.CancelFunc) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop = signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// ballast is the size of the memory that Ballast allocates.
const ballast = 64 << 20

// Ballast lets more garbage gather before the process collects it, until release is called. The commands that run for
// long and serve many calls use it: what is alive in them is a few megabytes, and memory is collected when there is as
// much garbage, which under load is all the time, a seventh of their CPU time (docs/performance.md). The ballast counts
// as alive, but is never resident, because nothing touches it. A higher GOGC would save as much, but let a heap that is
// large by itself grow to several times its size. Commands that run once for each agent do without it.
func Ballast() (release func()) {
	b := make([]byte, ballast)
	return func() { runtime.KeepAlive(b) }
}

// Lean has the process collect its memory when there is half as much garbage as is alive, unless the variable GOGC says
// otherwise. It is for a command that runs once for each agent: its few calls leave time for that.
func Lean(environ []string) {
	if !slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, "GOGC=") }) {
		debug.SetGCPercent(leanPercent)
	}
}

// leanPercent is the GOGC of Lean.
const leanPercent = 50

// Main runs a command until it ends, or a signal tells it to, and ends the process with its exit code.
func Main(run func(ctx context.Context) int) {
	ctx, stop := UntilSignal()
	code := run(ctx)
	stop()
	os.Exit(code)
}

// soon is how long a process that was told to stop may take without a word.
const soon = 300 * time.Millisecond

// Patience tells w, once ctx has ended, that the process waits for the calls in hand, unless ended is called soon
// after: whoever pressed Ctrl-C would take it for one that hangs. ended must be called in any case.
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
