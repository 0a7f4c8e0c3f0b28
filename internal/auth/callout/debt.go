package callout

import (
	"maps"
	"time"
)

// A server logs each message that it refuses, for which it has no count: it counts the message only as sent by the
// client. It counts an accepted message a second time, as received by a subscriber. So refused messages are estimated
// as those that were sent and not received.
const (
	// A family is shut out when its debt exceeds maxRefused messages. The debt decreases by refused each second.
	maxRefused = 500_000 // messages
	refused    = 5000    // a second, in the long run
	// Large messages from many connections of a family can fill the outbound buffer of a dispatcher's connection faster
	// than the server can write it. The server then closes that connection, and drops the messages of all clients in the
	// buffer. So the bytes that were sent and not received by dispatchers are limited in the same way.
	maxDropped = 512 << 20 // bytes
	dropped    = 8 << 20   // a second, in the long run
	// Executors and auditors send their messages to JetStream, which has no connection with counts, but answers most of
	// them. Executors send acknowledgements and heartbeats without an answer: an executor may send ofExecutor messages for
	// each message that it receives, and each of its connections may send ownExecutor more per second.
	ofExecutor  = 4
	ownExecutor = 5000
	// shutOut is how long dispatchers refuse the connections of a family that flooded.
	shutOut = time.Minute

	// known is the age from which a connection that is listed for the first time starts with its present counts. The
	// messages of a younger one all count.
	known = 10 * time.Second
)

// volume is an amount of traffic.
type volume struct{ messages, bytes float64 }

// less returns v minus w, at least 0.
func (v volume) less(w volume) volume {
	return volume{max(0, v.messages-w.messages), max(0, v.bytes-w.bytes)}
}

// debt is the estimated traffic of a family that servers refused or dropped.
type debt struct {
	asks bool   // its users are in AGENTS: their messages go to dispatchers
	sent volume // since the last list; if asks is false, minus what its users received
	owed volume
}

// heard counts the messages that all dispatchers received since the last list.
type heard struct {
	volume
	listed  bool // of at least one connection
	partial bool // there may be more
}

// traffic adds the traffic of a connection since its last counts to the debt of its family, or to what dispatchers
// received. The caller holds c.mu.
func (c *Connections) traffic(o *open, l connection) {
	now := c.now()
	if o.at.IsZero() {
		if o.at = l.Start; now.Sub(l.Start) > known {
			o.counts, o.at = l.counts, now
			c.heard.partial = c.heard.partial || o.dispatcher
		}
	}
	sent := volume{float64(l.Sent - o.counts.Sent), float64(l.SentBytes - o.counts.SentBytes)}
	got := volume{float64(l.Heard - o.counts.Heard), float64(l.HeardBytes - o.counts.HeardBytes)}
	past := max(0, now.Sub(o.at).Seconds())
	o.counts, o.at = l.counts, now
	if o.dispatcher {
		c.heard.listed = true
		c.heard.messages += got.messages
		c.heard.bytes += got.bytes
		return
	}
	d := c.debt(o)
	switch d.sent.messages += sent.messages; {
	case o.asks:
		d.sent.bytes += sent.bytes
	case o.executor:
		d.sent.messages -= got.messages*ofExecutor + ownExecutor*past
	default:
		d.sent.messages -= got.messages
	}
}

// debt returns the debt of the family of a connection. The caller holds c.mu.
func (c *Connections) debt(o *open) *debt {
	d := c.debts[o.root]
	if d == nil {
		d = &debt{asks: o.asks}
		c.debts[o.root] = d
	}
	return d
}

// flooding returns the families whose debt exceeds a limit, with their connections, and clears their debts. The debt of
// a family in AGENTS is what it sent minus all that dispatchers received from anybody, so it is never overestimated.
func (c *Connections) flooding() map[string][]place {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, found, got := c.now(), map[string][]place{}, c.heard
	past := max(0, now.Sub(c.looked).Seconds())
	c.looked, c.heard = now, heard{}
	for root, d := range c.debts {
		if !d.asks || got.listed && !got.partial {
			d.owed.messages += d.sent.messages
			d.owed.bytes += d.sent.bytes
		}
		if d.sent = (volume{}); d.asks {
			d.owed = d.owed.less(got.volume)
		}
		floods := d.owed.messages > maxRefused || d.owed.bytes > maxDropped
		if floods {
			found[root] = c.of(root)
		}
		if d.owed = d.owed.less(volume{refused * past, dropped * past}); floods || d.owed == (volume{}) {
			delete(c.debts, root)
		}
	}
	maps.DeleteFunc(c.out, func(_ string, until time.Time) bool { return until.Before(now) })
	return found
}

// shut handles a message on shutOutSubject: it makes Admit refuse the connections of the family for shutOut.
func (c *Connections) shut(root []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	already := c.now().Before(c.out[string(root)]) // several dispatchers may publish the same family
	c.out[string(root)] = c.now().Add(shutOut)
	if already {
		return
	}
	c.log.Warn("connections are closed and refused: servers refused or dropped too much of what they sent", "family",
		string(root), "for", shutOut)
}
