package workqueue

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// A count of deliveries is believed only where the consumer that gives it can know of all of them.
func TestIncarnationCounts(t *testing.T) {
	born := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	info := func(born time.Time, delivered uint64) Consumer { return Consumer{Created: born, Delivered: delivered} }
	met := meet(info(born, 10))
	wrong := met
	wrong.gone = true
	for name, c := range map[string]struct {
		known consumerAge
		at    time.Time
		nth   uint64 // delivery of the consumer
		want  bool
	}{
		"new":                         {met, born, 11, true},
		"older than the consumer":     {met, born.Add(-time.Nanosecond), 11, false},
		"handed out before it is met": {met, born, 10, false},
		"something is wrong with it":  {wrong, born, 11, false},
		"looked at again":             {wrong.seen(info(born, 12)), born, 11, true},
		"it counts from one again":    {met.seen(info(born, 3)), born, 4, false},
		"for as long as it is behind": {met.seen(info(born, 3)), born, 10, false},
		"and not any longer":          {met.seen(info(born, 3)).seen(info(born, 20)), born, 4, true},
		"it was made anew":            {met.seen(info(born.Add(time.Second), 0)), born, 11, false},
	} {
		m := &nats.MsgMetadata{Timestamp: c.at, Sequence: nats.SequencePair{Consumer: c.nth}}
		if got := c.known.counts(m); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
