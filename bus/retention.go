package bus

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Retention limits the age and size of the audit record. A zero field keeps the setting of an existing stream, and a
// new stream gets the default. Any other value also changes an existing stream. If processes start with different
// values, those of the last one apply.
type Retention struct {
	AuditAge    time.Duration // maximum age in the stream AUDIT (calls); at least 1 minute; default 30 days
	AuditBytes  int64         // maximum size of AUDIT; at least 1 MiB; default 4 GiB
	AuditFull   FullPolicy    // what happens if AUDIT is full; default DropOldest
	DeniedAge   time.Duration // maximum age in the stream DENIED (refusals); at least 1 minute; default 30 days
	DeniedBytes int64         // maximum size of DENIED; at least 1 MiB; default 512 MiB
}

// FullPolicy is the reaction to a full stream AUDIT: [DropOldest] or [Refuse].
type FullPolicy string

const (
	// DropOldest deletes the oldest records to make room for new ones.
	DropOldest FullPolicy = "forget"
	// Refuse keeps the old records. Dispatchers refuse calls with R-CAP-AUDIT until records expire or the limit is raised.
	Refuse FullPolicy = "refuse"
)

// minRetention is the shortest age, and minRecord the smallest size in bytes, of the streams of the record.
const (
	minRetention = time.Minute
	minRecord    = 1 << 20
)

// Check returns an error if an age is shorter than 1 minute, a size is smaller than 1 MiB, or AuditFull is unknown.
// Zero values are valid.
func (r Retention) Check() error {
	for what, age := range map[string]time.Duration{"AUDIT": r.AuditAge, "DENIED": r.DeniedAge} {
		if age != 0 && age < minRetention {
			return fmt.Errorf("an age of %s for %s is too short: it is %s or more", timer.Text(age), what,
				timer.Text(minRetention))
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

// apply writes the fields of r that are set into the configuration of a stream, and reports whether that changes it.
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
	case subjects.SurplusStream:
		replace(&c.MaxAge, r.AuditAge)
		if r.AuditBytes != 0 {
			c.MaxBytes = max(r.AuditBytes/4, minRecord)
		}
	case subjects.DeniedStream:
		replace(&c.MaxAge, r.DeniedAge)
		replace(&c.MaxBytes, r.DeniedBytes)
	}
	return c.MaxAge != before.MaxAge || c.MaxBytes != before.MaxBytes || c.Discard != before.Discard
}

// replace sets *to unless value is the zero value.
func replace[T comparable](to *T, value T) {
	var none T
	if value != none {
		*to = value
	}
}
