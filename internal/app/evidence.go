package app

import (
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/tool"
)

// evidence is what a dispatcher knows of what executors cannot have done.
type evidence struct {
	*kv.Attendance
	*bus.Deliveries
}

func newEvidence(c *Conn, pools *kv.Pools, r *tool.Registry) evidence {
	var watched []string
	for _, m := range r.List() {
		watched = append(watched, m.Pool)
	}
	return evidence{kv.NewAttendance(pools, c.Clock.Now, watched...), bus.NewDeliveries(c.JS)}
}
