package cli

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

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
