package authority

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

// debt is a number of messages of a family that are taken to be refused.
type debt struct {
	asks bool    // its messages go to dispatchers
	sent float64 // since the last list, and not answered if they do not go to dispatchers
	owed float64
}

// heard is a number of messages that all dispatchers have got since the last list.
type heard struct {
	messages int64
	listed   bool // of at least one connection
	partial  bool // there may be more
}

// traffic takes over the counts of one connection.
func (c *Connections) traffic(o *open, l connection) {
	now := c.now()
	if o.at.IsZero() {
		if o.at = l.Start; now.Sub(l.Start) > known {
			o.sent, o.heard, o.at = l.Sent, l.Heard, now
			c.heard.partial = c.heard.partial || o.dispatcher
		}
	}
	sent, got, past := l.Sent-o.sent, l.Heard-o.heard, max(0, now.Sub(o.at).Seconds())
	o.sent, o.heard, o.at = l.Sent, l.Heard, now
	if o.dispatcher {
		c.heard.messages += got
		c.heard.listed = true
		return
	}
	d := c.debts[o.root]
	if d == nil {
		d = &debt{asks: o.asks}
		c.debts[o.root] = d
	}
	switch d.sent += float64(sent); {
	case o.executor:
		d.sent -= float64(got)*ofExecutor + ownExecutor*past
	case !o.asks:
		d.sent -= float64(got)
	}
}

// flooding returns the families that have too many messages refused, and their connections, and forgets what they owe.
// A family has not more messages refused than it sends beyond all that dispatchers get.
func (c *Connections) flooding() map[string][]place {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, found := c.now(), map[string][]place{}
	less, got := refused*max(0, now.Sub(c.looked).Seconds()), c.heard
	c.looked, c.heard = now, heard{}
	for root, d := range c.debts {
		switch {
		case !d.asks:
			d.owed += d.sent
		case got.listed && !got.partial:
			d.owed += d.sent - float64(got.messages)
		}
		d.sent = 0
		floods := d.owed > maxRefused
		if floods {
			found[root] = c.of(root)
		}
		if d.owed -= less; floods || d.owed <= 0 {
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
	c.log.Warn("connections are closed and refused: too many of their messages were refused", "family", string(root),
		"for", shutOut)
}
