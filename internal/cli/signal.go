package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilSignal returns a context that ends with the first SIGINT or SIGTERM, which lets a process end
// in order. The second one ends it at once: a process that cannot end in order must not hold on
// to the terminal. stop ends the watch.
func UntilSignal() (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
