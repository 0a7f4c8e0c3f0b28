package app

import (
	"context"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
	"github.com/seed-018f16cc/toolbus/tool"
)

// evidence is what a dispatcher knows of what executors cannot have done.
type evidence struct {
	*kv.Attendance
	delivered *bus.Delivered
}

func newEvidence(c *Conn, pools *kv.Pools, r *tool.Registry) evidence {
	var watched []string
	for _, m := range r.List() {
		watched = append(watched, m.Pool)
	}
	return evidence{kv.NewAttendance(pools, c.Clock.Now, watched...), bus.NewDelivered(c.JS)}
}

// Delivered implements dispatcher.Evidence.
func (e evidence) Delivered(ctx context.Context, part subjects.Part, pool, prio string) (uint64, error) {
	return e.delivered.Position(ctx, part, pool, prio)
}
