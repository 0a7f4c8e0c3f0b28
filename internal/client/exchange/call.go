package exchange

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Call is an open call: a caller waits for its result, and a worker makes it. [Calls.Add] begins it.
type Call struct {
	ctx     context.Context // of the caller
	results chan Result     // has room for maxResults
	// Deadline is set by [Calls.Add] and [Calls.Due]. Only the goroutines that call these read it; others call
	// [Calls.Deadline].
	Deadline time.Time
	callbacks

	// What follows belongs to the watcher.
	place  timer.Entry[*Call] // among the open ones, by when it is looked at next
	leaves bool               // its caller goes away
	out    *request           // that is on its way; nil where none is
}

// maxResults is how many results one caller gets at the most: that of the call, and that it is given up.
const maxResults = 2

// Result is the response of a call, or the error that ended it.
type Result struct {
	Request  *envelope.Request
	Response *envelope.Response
	Err      error
	GivenUp  bool // the caller is to wait no longer
}

// Finish hands the result of the worker to the caller. Call it once.
func (c *Call) Finish(r Result) { c.results <- r }

// Context returns the context of the caller; see [Call.Cancelled].
func (c *Call) Context() context.Context { return c.ctx }

// Cancelled returns the error of the caller's context if the caller has cancelled the call, and nil otherwise. A
// deadline of that context cancels nothing: it is the deadline of the call, at which the caller gets an answer.
func (c *Call) Cancelled() error {
	if err := c.ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// Graced returns a context that ends a little after the deadline of the call, or when the caller cancels the call. It
// is for requests to the bus that the call needs, such as those for a large output.
func (c *Call) Graced() (context.Context, context.CancelFunc) {
	own, cancel := context.WithDeadline(context.WithoutCancel(c.ctx), c.Deadline.Add(workerGrace))
	stop := context.AfterFunc(c.ctx, func() {
		if c.Cancelled() != nil {
			cancel()
		}
	})
	return own, func() { stop(); cancel() }
}

// callbacks calls the functions of a call, OnAccepted and OnChunk, until the call has ended for its caller. It also
// keeps the first request that was sent.
type callbacks struct {
	mu       sync.Mutex
	sent     *envelope.Request // the first one
	over     bool
	panicked chan *Panic // in a function of the call; the first one. Nil where it has none
	patient  bool        // the caller does not want to know that the call is accepted
}

// Panic is the value with which [Calls.Await] panics after OnAccepted or OnChunk of the call panicked, or ended its
// goroutine.
type Panic struct {
	Value any
	Stack []byte // where it panicked
}

// String says both.
func (p *Panic) String() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// ErrStopped means that the call has ended for its caller: no function of the call is called any more, and nothing is
// sent for it. No caller gets this error.
var ErrStopped = errors.New("the caller does not wait any more")

// Guard returns the functions of the call, either of which may be nil, as functions that do nothing once the call has
// ended for its caller.
func (c *callbacks) Guard(
	accepted func(envelope.Accepted), chunk func(envelope.Chunk) error,
) (func(envelope.Accepted), func(envelope.Chunk) error) {
	if c.patient = accepted == nil; accepted == nil && chunk == nil {
		return nil, nil
	}
	c.panicked = make(chan *Panic, 1)
	onAccepted, onChunk := accepted, chunk
	if accepted != nil {
		onAccepted = func(a envelope.Accepted) {
			_ = c.let(func() error { accepted(a); return nil })
		}
	}
	if chunk != nil {
		onChunk = func(part envelope.Chunk) error {
			return c.let(func() error { return chunk(part) })
		}
	}
	return onAccepted, onChunk
}

// let calls a function of the call, unless the call has ended.
func (c *callbacks) let(f func() error) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return ErrStopped
	}
	returned := false
	defer c.recoverPanic(&returned, &err)
	err = f()
	returned = true
	return err
}

// recoverPanic ends the call when a function of it panics, or ends the goroutine that it is called in. Defer it.
func (c *callbacks) recoverPanic(returned *bool, err *error) {
	if *returned {
		return
	}
	p := recover()
	if p == nil { // runtime.Goexit, as a test that is failed from here
		p = "a function of the call has ended its goroutine"
	}
	c.over = true
	c.panicked <- &Panic{p, debug.Stack()} // no function is called after it
	*err = ErrStopped
}

// rethrow panics if a function of the call has panicked.
func (c *callbacks) rethrow() {
	select {
	case p := <-c.panicked:
		panic(p)
	default:
	}
}

// begin reports whether req may be sent. Nothing may be sent once the call has ended for its caller, who may have been
// told that nothing was sent.
func (c *callbacks) begin(req *envelope.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == nil && !c.over {
		c.sent = req
	}
	return !c.over
}

// End ends the call for its caller, and returns the request that was sent first; nil if none was.
func (c *callbacks) End() *envelope.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	return c.sent
}
