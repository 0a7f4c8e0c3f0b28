package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
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
