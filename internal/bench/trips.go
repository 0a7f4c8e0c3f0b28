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

// trips are round trips per call: requests to a party or to the server that were answered.
type trips struct {
	before float64 // answered while the caller waited, including its own request
	all    float64
}

// Number of calls for which round trips are counted, and the pause between them. During the pause the work after an
// answer ends, so that it does not count for the next call.
const (
	tripCalls = 32
	tripPause = 10 * time.Millisecond
)

// count counts the round trips of some calls. It is not part of a round, because a subscription to all subjects slows
// down every message.
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

// tap sees every message that passes the server. It sees a request before its answer.
type tap struct {
	asks  string // prefix of the subject of a caller's request
	ended chan struct{}

	mu          sync.Mutex
	open        map[string]bool // reply subjects of unanswered requests
	caller      string          // reply subject of the waiting caller, or ""
	before, all int
}

// tapEnd is the subject of the last message that a tap processes.
const tapEnd = watchInbox + ".end"

// listen subscribes to all subjects.
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

// end waits until the tap has processed all messages that were sent before.
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

// see processes the next message.
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

// handedOut reports whether a message is a delivery to a consumer or a pull request. Neither counts as a round trip: no
// process waits for the ack of a delivery, and a pull request is sent before there is work.
func handedOut(subject, reply string) bool {
	return strings.HasPrefix(reply, "$JS.ACK.") || strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT.")
}
