package replica

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Restored describes an entry that this process has stored again from its copy. If several processes restore an entry,
// the compare-and-set lets one of them store it, and only that one has a Restored.
type Restored struct {
	ID     string // random; the same whenever this restore is recorded
	Stream string
	Entry  string // subject of the entry
	Reason string // Missing or Older
}

// Values of the field Reason of [Restored].
const (
	Missing = "missing" // the stream had no such entry any more
	Older   = "older"   // the stream had an entry that was replaced long ago
)

// maxUnrecorded is the number of restores that wait for their record. Later ones are only logged.
const maxUnrecorded = 1024

// recordPause is the first pause after a record that failed, and recordMaxPause the longest one.
const (
	recordPause    = 100 * time.Millisecond
	recordMaxPause = 5 * time.Second
)

// restored notes that an entry was stored again in the place of the given revision.
func (c *Copies) restored(stream, entry string, revision uint64) {
	r := Restored{ID: rand.Text(), Stream: stream, Entry: entry, Reason: Older}
	if revision == 0 {
		r.Reason = Missing
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unrecorded) < maxUnrecorded {
		c.unrecorded = append(c.unrecorded, r)
	}
	timer.Notify(c.more)
}

// RecordRestored calls record for each entry that this process has restored, also before the call, until ctx ends.
// After an error of record it calls it again. Call it once at a time.
func (c *Copies) RecordRestored(ctx context.Context, record func(context.Context, Restored) error) {
	if c == nil {
		return
	}
	for ctx.Err() == nil {
		r, ok := c.firstUnrecorded()
		if !ok {
			select {
			case <-c.more:
			case <-ctx.Done():
			}
			continue
		}
		again := timer.Backoff{Pause: recordPause, MaxPause: recordMaxPause}
		err := again.Until(ctx, func(ctx context.Context) (bool, error) {
			err := record(ctx, r)
			return err == nil, err
		})
		if err == nil {
			c.recorded()
		}
	}
}

func (c *Copies) firstUnrecorded() (r Restored, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unrecorded) == 0 {
		return r, false
	}
	return c.unrecorded[0], true
}

// recorded drops the first restore that waits for its record.
func (c *Copies) recorded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unrecorded = c.unrecorded[1:]
}
