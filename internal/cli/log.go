package cli

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
)

// Logger returns a logger of events from level on, one line each: JSON, or text if Stderr is a terminal. Unless it logs
// everything, that is from [slog.LevelDebug] on, it logs a message at most spareLines times per sparePeriod, and later
// how many it left out: while a server is away, messages repeat. It leaves out no outcome of a call, but warnings of
// messages that were not sent because the connection is lost.
func (e Env) Logger(level slog.Level) *slog.Logger {
	to := e.handler(e.Stderr, level)
	if level <= slog.LevelDebug {
		return slog.New(to)
	}
	return slog.New(&sparing{Handler: to, said: &said{of: map[string]*period{}}})
}

// handler returns the handler of a log that is read where Stderr is.
func (e Env) handler(w io.Writer, level slog.Level) slog.Handler {
	if e.Terminal {
		return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
	}
	return newJSONHandler(w, level)
}

// Limits for events with the same message, whatever their attributes.
const (
	sparePeriod = 10 * time.Second
	spareLines  = 10 // in a period
)

// sparing is a handler that leaves out messages that repeat too often.
type sparing struct {
	slog.Handler
	said *said
}

// said counts the events of each message.
type said struct {
	mu sync.Mutex
	of map[string]*period // by message
}

// maxSaid is the largest number of counted messages. An embedded server logs an unlimited number of different ones.
const maxSaid = 1000

// period counts the events of one message within sparePeriod.
type period struct {
	began time.Time
	lines int // logged and left out
}

// more counts an event. It reports whether to log it, and how many were left out before it.
func (s *said) more(message string, now time.Time) (leftOut int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.of[message]
	if p == nil {
		if len(s.of) >= maxSaid {
			clear(s.of)
		}
		p = &period{began: now}
		s.of[message] = p
	}
	if now.Sub(p.began) >= sparePeriod {
		leftOut = max(0, p.lines-spareLines)
		*p = period{began: now}
	}
	p.lines++
	return leftOut, p.lines <= spareLines
}

// Handle implements slog.Handler.
func (s *sparing) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn && isLost(r) {
		return nil
	}
	if telemetry.IsOutcome(r) {
		return s.Handler.Handle(ctx, r)
	}
	leftOut, ok := s.said.more(r.Message, r.Time)
	if !ok {
		return nil
	}
	if leftOut > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("left_out", leftOut))
	}
	return s.Handler.Handle(ctx, r)
}

// isLost reports whether an attribute of an event is an error for which [link.IsLost] is true.
func isLost(r slog.Record) (is bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		is = ok && link.IsLost(err)
		return !is
	})
	return is
}

// WithAttrs implements slog.Handler.
func (s *sparing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sparing{s.Handler.WithAttrs(attrs), s.said}
}

// WithGroup implements slog.Handler.
func (s *sparing) WithGroup(name string) slog.Handler {
	return &sparing{s.Handler.WithGroup(name), s.said}
}
