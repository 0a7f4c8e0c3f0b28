package callout

import (
	"maps"
	"time"
)

// The server logs each message that it refuses, and counts it as one that the client has sent. It has no count of
// refusals. It counts a message that it accepts a second time, as one that a receiver gets.
const (
	// A family may have maxRefused messages refused, and refused a second that do not count.
	maxRefused = 500_000 // messages
	refused    = 5000    // a second, in the long run
	// Large messages from many connections of a family fill the connection of a dispatcher faster than the server writes
	// to it. The server closes it, and drops them and those of all others. So the bytes that dispatchers do not get are
	// bounded, too: maxDropped, and dropped a second that do not count.
	maxDropped = 512 << 20 // bytes
	dropped    = 8 << 20   // a second, in the long run
	// The messages of executors and auditors go to JetStream, which has no connection with counts. It answers them. An
	// executor acknowledges work, and says that it runs it, without an answer: for each message that it gets it may
	// send ofExecutor, and each of its connections ownExecutor a second besides.
	ofExecutor  = 4
	ownExecutor = 5000
	// shutOut is how long dispatchers refuse a family whose connections were closed for that.
	shutOut = time.Minute

	// known is the age of a connection whose messages before the first list do not count.
	known = 10 * time.Second
)

// volume is an amount of traffic.
type volume struct{ messages, bytes float64 }

// less returns v without w, and without more than there is.
func (v volume) less(w volume) volume {
	return volume{max(0, v.messages-w.messages), max(0, v.bytes-w.bytes)}
}

// debt is the traffic of a family that is taken to be refused or dropped.
type debt struct {
	asks bool   // its messages go to dispatchers
	sent volume // since the last list, and not answered if they do not go to dispatchers
	owed volume
}

// heard counts what all dispatchers have received since the last list.
type heard struct {
	volume
	listed  bool // of at least one connection
	partial bool // there may be more
}

// traffic takes over the counts of one connection.
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
	d := c.debts[o.root]
	if d == nil {
		d = &debt{asks: o.asks}
		c.debts[o.root] = d
	}
	switch d.sent.messages += sent.messages; {
	case o.asks:
		d.sent.bytes += sent.bytes
	case o.executor:
		d.sent.messages -= got.messages*ofExecutor + ownExecutor*past
	default:
		d.sent.messages -= got.messages
	}
}

// flooding returns the families that have too much refused or dropped, and their connections, and forgets what they
// owe. A family has no more refused and dropped than it sends beyond all that dispatchers get.
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

// shut refuses the connections of a family for some time.
func (c *Connections) shut(root []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	already := c.now().Before(c.out[string(root)]) // several dispatchers have seen it
	c.out[string(root)] = c.now().Add(shutOut)
	if already {
		return
	}
	c.log.Warn("connections are closed and refused: servers refused or dropped too much of what they sent", "family",
		string(root), "for", shutOut)
}
