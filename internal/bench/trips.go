package bench

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// trips are round trips per call: requests to a party or to the server whose answer came.
type trips struct {
	before float64 // while the caller waited: its own, and all that had their answer before it
	all    float64
}

// They are counted of so many calls, one after the other, with a pause between them: what is done after an answer is
// over then, and not taken for a part of the next call.
const (
	tripCalls = 32
	tripPause = 10 * time.Millisecond
)

// count counts the round trips of some calls. It is no part of a round: what hears everything makes all slower.
func (s *side) count(ctx context.Context, h *host, ids *numbers) error {
	nc, err := bus.Dial(h.url, "bench-tap", h.connect...)
	if err != nil {
		return err
	}
	defer nc.Close()
	t := &tap{asks: s.asks, open: map[string]bool{}, ended: make(chan struct{})}
	if err := t.listen(nc); err != nil {
		return err
	}
	for range tripCalls {
		if err := s.call(ctx, ids.n.Add(1)); err != nil {
			return err
		}
		if !timer.Sleep(ctx, tripPause) {
			return ctx.Err()
		}
	}
	if err := s.settled(ctx); err != nil {
		return err
	}
	if err := t.end(ctx, nc); err != nil {
		return err
	}
	s.trips = t.perCall()
	return nil
}

// tap hears every message that passes a server, in an order in which no answer is before its request.
type tap struct {
	asks  string // how the subject of a caller's request begins
	ended chan struct{}

	mu          sync.Mutex
	open        map[string]bool // subjects on which an answer is waited for
	caller      string          // that of a caller who waits
	before, all int
}

// tapEnd is the last message that a tap hears.
const tapEnd = watchInbox + ".end"

// listen begins to hear everything, before it returns.
func (t *tap) listen(nc *nats.Conn) error {
	sub, err := nc.Subscribe(">", func(msg *nats.Msg) {
		if msg.Subject == tapEnd {
			close(t.ended)
			return
		}
		t.see(msg.Subject, msg.Reply)
	})
	if err != nil {
		return err
	}
	return cmp.Or(sub.SetPendingLimits(-1, -1), nc.Flush())
}

// end returns when everything has been heard that was sent before.
func (t *tap) end(ctx context.Context, nc *nats.Conn) error {
	if err := nc.Publish(tapEnd, nil); err != nil {
		return err
	}
	select {
	case <-t.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// perCall returns the round trips per call.
func (t *tap) perCall() trips {
	t.mu.Lock()
	defer t.mu.Unlock()
	return trips{before: float64(t.before) / tripCalls, all: float64(t.all) / tripCalls}
}

// see takes the next message.
func (t *tap) see(subject, reply string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[subject] {
		delete(t.open, subject)
		t.all++
		if t.caller != "" {
			t.before++
		}
		if t.caller == subject {
			t.caller = ""
		}
	}
	if reply == "" || strings.HasPrefix(reply, watchInbox) || handedOut(subject, reply) {
		return
	}
	t.open[reply] = true
	if strings.HasPrefix(subject, t.asks) {
		t.caller = reply
	}
}

// handedOut reports whether a message is one that the server hands to a consumer, or a request to: nobody waits for
// the acknowledgement of the one, and the other is made before there is anything.
func handedOut(subject, reply string) bool {
	return strings.HasPrefix(reply, "$JS.ACK.") || strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT.")
}
