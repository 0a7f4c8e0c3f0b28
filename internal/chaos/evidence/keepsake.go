package evidence

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/deployment/deploymenttest"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Keepsake keeps the events of the call log beyond their expiry: requests outlive their deadlines by
// ten minutes, and a run may be longer.
type Keepsake map[call.Position]call.Entry

// How often the log is copied, and how soon again when the server is not there.
const (
	copyEvery = 4 * time.Minute
	copyAgain = 5 * time.Second
	copyTime  = time.Minute
)

// Run copies the log now and then until ctx ends.
func (a Keepsake) Run(ctx context.Context, at deploymenttest.Access) {
	for next := copyEvery; timer.Sleep(ctx, next); {
		next = copyEvery
		if a.copy(ctx, at) != nil {
			next = copyAgain
		}
	}
}

func (a Keepsake) copy(ctx context.Context, at deploymenttest.Access) error {
	ctx, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	js, done, err := Direct(at)
	if err != nil {
		return err
	}
	defer done()
	entries, err := readLog(ctx, js, a)
	a.add(entries)
	return err
}

// end returns the position of the newest event of a partition.
func (a Keepsake) end(p subjects.Partition) (seq uint64) {
	for place := range a {
		if place.Partition == p {
			seq = max(seq, place.Seq)
		}
	}
	return seq
}

func (a Keepsake) add(entries []call.Entry) {
	for _, e := range entries {
		a[e.State.Position] = e
	}
}

// log returns all events, each partition in its order.
func (a Keepsake) log() []call.Entry {
	return slices.SortedFunc(maps.Values(a), func(x, y call.Entry) int {
		return cmp.Or(cmp.Compare(x.State.Partition, y.State.Partition), cmp.Compare(x.State.Seq, y.State.Seq))
	})
}
