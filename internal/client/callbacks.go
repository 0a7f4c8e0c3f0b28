package client

import (
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// callbacks calls the functions of a call, OnAccepted and OnChunk, until the call has ended for its caller. It also
// keeps the first request that was sent.
type callbacks struct {
	mu       sync.Mutex
	sent     *envelope.Request // the first one
	over     bool
	panicked chan *Panic // in a function of the call; the first one. Nil where it has none
}

// Panic is what [Client.Call] panics with when a function of the call, which runs beside it, has panicked or
// ended its goroutine.
type Panic struct {
	Value any
	Stack []byte // where it panicked
}

// String says both.
func (p *Panic) String() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// caught ends the callbacks when a function of the call panics, or ends the goroutine that it is called in. Defer it.
func (s *callbacks) caught(returned *bool, err *error) {
	if *returned {
		return
	}
	p := recover()
	if p == nil { // runtime.Goexit, as a test that is failed from here
		p = "a function of the call has ended its goroutine"
	}
	s.over = true
	s.panicked <- &Panic{p, debug.Stack()} // no function is called after it
	*err = errStopped
}

// begin reports whether req may be sent. Nothing may be sent once the call has ended for its caller, who may have been
// told that nothing was sent.
func (s *callbacks) begin(req *envelope.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent == nil && !s.over {
		s.sent = req
	}
	return !s.over
}

// end lets no function be called any more, and returns the request that was sent first; nil if none was.
func (s *callbacks) end() *envelope.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	return s.sent
}

// of returns the call with functions that do nothing once the callbacks have ended.
func (s *callbacks) of(call Call) Call {
	if call.OnAccepted != nil || call.OnChunk != nil {
		s.panicked = make(chan *Panic, 1)
	}
	if accepted := call.OnAccepted; accepted != nil {
		call.OnAccepted = func(a envelope.Accepted) {
			_ = s.let(func() error { accepted(a); return nil })
		}
	}
	if chunk := call.OnChunk; chunk != nil {
		call.OnChunk = func(part envelope.Chunk) error {
			return s.let(func() error { return chunk(part) })
		}
	}
	return call
}

// let calls a function of the call, unless the callbacks have ended.
func (s *callbacks) let(f func() error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return errStopped
	}
	returned := false
	defer s.caught(&returned, &err)
	err = f()
	returned = true
	return err
}
