package bus

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// The NATS client holds its lock while it connects anew, and everything that sends waits for
// that: as long as a frozen server takes, which accepts connections and says nothing. Callers have
// deadlines (promise P2), so what is done on the connection on their behalf is done beside them.

// inTime makes the call and returns its outcome, or the library's own statement when the
// deadline and its grace have passed. The functions of call are not called after that.
func (c *Client) inTime(ctx context.Context, call Call, req *envelope.Request, fn *function, deadline time.Time) (*envelope.Response, error) {
	show := &show{}
	e := errand{ctx: ctx, call: show.of(call), show: show, req: req, fn: fn, deadline: deadline, done: make(chan made, 1)}
	if !c.crew.start(e) {
		return nil, errClosed
	}
	end := time.NewTimer(time.Until(deadline) + grace)
	defer end.Stop()
	select {
	case m := <-e.done:
		return m.response, m.err
	case <-end.C:
		if !show.end() {
			return c.unsent(req, deadline, context.DeadlineExceeded), nil
		}
		return c.unanswered(req, deadline, nil), nil // nobody is asked why: there is no time left
	}
}

var errClosed = errors.New("the client is closed")

// errand is a call to be made beside its caller.
type errand struct {
	ctx      context.Context // ends the errand early
	call     Call
	show     *show
	req      *envelope.Request
	fn       *function
	deadline time.Time
	done     chan made
}

// run ends soon after the deadline, when the connection lets go of it.
func (c *Client) run(e errand) {
	r, err := c.attempts(e)
	if err == nil {
		r = c.complete(e.ctx, e.fn, r, e.deadline)
	}
	e.done <- made{r, err}
}

// made is what became of a call.
type made struct {
	response *envelope.Response
	err      error
}

// show lets a call be sent, and its functions be called, until it ends.
type show struct {
	mu    sync.Mutex
	begun bool
	over  bool
}

// begin must be asked before anything is sent: not at all once the caller was told that nothing was.
func (s *show) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = s.begun || !s.over
	return !s.over
}

// end ends the show and says whether it had begun.
func (s *show) end() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	return s.begun
}

// of returns the call with its functions under the show's control.
func (s *show) of(call Call) Call {
	if accepted := call.Accepted; accepted != nil {
		call.Accepted = func(a envelope.Accepted) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !s.over {
				accepted(a)
			}
		}
	}
	if chunk := call.Chunk; chunk != nil {
		call.Chunk = func(part envelope.Chunk) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.over {
				return errStopped
			}
			return chunk(part)
		}
	}
	return call
}

// requestMsg sends a request and returns its answer, or the error of ctx when that ends.
func (c *Client) requestMsg(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	type answer struct {
		msg *nats.Msg
		err error
	}
	done := make(chan answer, 1)
	go func() { // ends with ctx, when the connection lets go of it
		msg, err := c.nc.RequestWithContext(ctx, subject, data)
		done <- answer{msg, err}
	}()
	select {
	case a := <-done:
		return a.msg, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// atHand is how long a question to the connection itself may take: longer than any that it lets through.
const atHand = 5 * time.Millisecond

// forbidden returns what the server last said of publishing to subject, if it does not allow that: it drops
// the message, and whoever waits for an answer is told nothing. A connection that is being made anew says
// nothing either.
func (c *Client) forbidden(subject string) error {
	last := make(chan error, 1)
	go func() { last <- c.nc.LastError() }() // ends when the connection lets go of it
	select {
	case err := <-last:
		if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), strconv.Quote(subject)) {
			return err
		}
	case <-time.After(atHand):
	}
	return nil
}
