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

// MemoryLimit is the size of the process above which [Collect] has memory collected sooner: 1 GiB. A dispatcher or an
// executor with a --payload-memory of at most 512 MiB needs less, also in floods (docs/limits.md). If the live memory
// exceeds the limit, collecting takes up to half of the CPU time.
const MemoryLimit = 1 << 30

// servingPercent is the GOGC of programs.
const servingPercent = 400

// Collect sets how much garbage may gather before the process collects it: percent of the live memory, and less if
// the process would exceed limit bytes. The variables GOGC and GOMEMLIMIT of environ each take precedence.
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

// Main runs a command until it ends, or a signal tells it to, and ends the process with its exit code. Most memory of a
// process that serves calls is garbage: with 100 %, Go's default, collecting took a seventh of the CPU time.
func Main(run func(ctx context.Context) int) {
	Collect(os.Environ(), servingPercent, MemoryLimit)
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
