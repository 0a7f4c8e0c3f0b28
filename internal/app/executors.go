package app

import (
	"cmp"
	"context"
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// executorsPage is the largest number of executors in one answer.
const executorsPage = 2000

// listExecutors returns a page of the executors whose heartbeats have not expired.
func (d *dispatcherParts) listExecutors(
	ctx context.Context, q envelope.ExecutorsRequest,
) (a envelope.ExecutorsResponse, _ *envelope.Error) {
	alive, err := d.executors.Pools.AllAlive(ctx)
	if err != nil {
		return a, envelope.NewError(envelope.CodeUnavailable, "the heartbeats could not be read").WithCause(err.Error())
	}
	name := func(b heartbeat.Heartbeat) string { return subjects.Instance(b.Pool, b.Instance) }
	slices.SortFunc(alive, func(x, y heartbeat.Heartbeat) int { return cmp.Compare(name(x), name(y)) })
	a.Executors = []envelope.ExecutorInfo{}
	for _, b := range alive {
		switch {
		case name(b) <= q.After:
			continue
		case len(a.Executors) == executorsPage:
			last := a.Executors[executorsPage-1]
			a.Next = subjects.Instance(last.Pool, last.Instance)
			return a, nil
		}
		a.Executors = append(a.Executors, envelope.ExecutorInfo{
			Instance: b.Instance, Pool: b.Pool, Version: b.Load.Version, Slots: b.Load.Slots, Running: b.Load.Running,
			Since: b.Load.Started, Host: b.Load.Host, PID: b.Load.PID,
		})
	}
	return a, nil
}
