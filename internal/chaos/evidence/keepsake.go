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

// Keepsake keeps events of the call log beyond their expiry. Requests expire ten minutes after their deadlines, and a
// run may take longer.
type Keepsake map[call.Position]call.Entry

// Interval of copies, pause after a failed copy, and timeout of a copy.
const (
	copyEvery = 4 * time.Minute
	copyAgain = 5 * time.Second
	copyTime  = time.Minute
)

// Run copies the log at an interval until ctx ends.
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

// end returns the sequence of the newest event of a partition.
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

// log returns all events, ordered by partition and sequence.
func (a Keepsake) log() []call.Entry {
	return slices.SortedFunc(maps.Values(a), func(x, y call.Entry) int {
		return cmp.Or(cmp.Compare(x.State.Partition, y.State.Partition), cmp.Compare(x.State.Seq, y.State.Seq))
	})
}
