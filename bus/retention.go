package bus

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Retention says how long the record is kept. A zero value leaves what there is, or else the default; any other is
// given to streams that exist, too. Processes that are given different ones take turns: the last to start wins.
type Retention struct {
	AuditAge    time.Duration // of what has to do with calls, default 30 days
	AuditBytes  int64         // default 4 GiB
	AuditFull   FullPolicy    // default Forget
	DeniedAge   time.Duration // of refusals, default 30 days
	DeniedBytes int64         // default 512 MiB
}

// FullPolicy says what happens when the record of calls has as many bytes as it may have.
type FullPolicy string

// What may happen then.
const (
	DropOldest FullPolicy = "forget" // the oldest goes
	// Refuse: calls are refused with R-CAP-AUDIT until the oldest is too old, or there is more room.
	Refuse FullPolicy = "refuse"
)

// minRetention is the shortest age of the record, and minRecord the least room for it, in bytes.
const (
	minRetention = time.Minute
	minRecord    = 1 << 20
)

// Check refuses what no record can be kept with.
func (r Retention) Check() error {
	for what, age := range map[string]time.Duration{"AUDIT": r.AuditAge, "DENIED": r.DeniedAge} {
		if age != 0 && age < minRetention {
			return fmt.Errorf("an age of %s for %s is too short: it is %s or more", age, what, minRetention)
		}
	}
	for what, n := range map[string]int64{"AUDIT": r.AuditBytes, "DENIED": r.DeniedBytes} {
		if n != 0 && n < minRecord {
			return fmt.Errorf("%d bytes are too few for %s: it has %d or more", n, what, minRecord)
		}
	}
	switch r.AuditFull {
	case "", DropOldest, Refuse:
		return nil
	}
	return fmt.Errorf("%q is not what can happen when AUDIT is full: that is %s or %s", r.AuditFull, DropOldest, Refuse)
}

// apply gives a stream what is set for it, and reports whether that changes it.
func (r Retention) apply(c *jetstream.StreamConfig) (changed bool) {
	before := *c
	switch c.Name {
	case subjects.AuditStream:
		replace(&c.MaxAge, r.AuditAge)
		replace(&c.MaxBytes, r.AuditBytes)
		switch r.AuditFull {
		case Refuse:
			c.Discard = jetstream.DiscardNew
		case DropOldest:
			c.Discard = jetstream.DiscardOld
		}
	case subjects.DeniedStream:
		replace(&c.MaxAge, r.DeniedAge)
		replace(&c.MaxBytes, r.DeniedBytes)
	}
	return c.MaxAge != before.MaxAge || c.MaxBytes != before.MaxBytes || c.Discard != before.Discard
}

// replace gives what there is a value for.
func replace[T comparable](to *T, value T) {
	var none T
	if value != none {
		*to = value
	}
}
