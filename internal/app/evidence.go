package app

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/executor"
	"github.com/seed-018f16cc/toolbus/internal/form"
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

// finder asks executors what they run.
type finder struct{ nc *nats.Conn }

// seek asks who runs an attempt; sighting is the answer of the one that does.
type seek struct {
	ID      string `json:"id"`
	Attempt int    `json:"attempt"`
}

type sighting struct {
	By    string      `json:"by"`
	Since call.UnixMS `json:"since"`
}

// seekTime bounds how long executors are waited for. Nobody answers where nobody runs it.
const seekTime = 150 * time.Millisecond

// Find implements dispatcher.Finder.
func (f finder) Find(ctx context.Context, id string, attempt int) (by string, since time.Time, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, seekTime)
	defer cancel()
	data, err := bus.Stamp(form.Control, seek{ID: id, Attempt: attempt})
	if err != nil {
		return "", since, false
	}
	msg, err := f.nc.RequestWithContext(ctx, subjects.Seek(id), data)
	var seen sighting
	if err != nil || bus.Unstamp(form.Control, msg.Data, &seen) != nil {
		return "", since, false
	}
	return seen.By, seen.Since.Time(), true
}

// sought answers who asks for an attempt that runs here.
func sought(e *executor.Executor, msg *nats.Msg) {
	var s seek
	id, err := subjects.ParseSeek(msg.Subject)
	if err != nil || bus.Unstamp(form.Control, msg.Data, &s) != nil || s.ID != id {
		return
	}
	since, ok := e.Seek(s.ID, s.Attempt)
	if !ok {
		return
	}
	if data, err := bus.Stamp(form.Control, sighting{By: e.Instance, Since: call.At(since)}); err == nil {
		_ = msg.Respond(data) // whoever asked asks again, if need be
	}
}
