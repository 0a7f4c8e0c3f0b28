package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Number is the name of a number of a deployment, which a dispatcher knows. All dispatchers know about the same, except
// for those that count.
type Number string

// The numbers.
const (
	QueueDepth         Number = "toolbus.queue.depth"
	QueueAge           Number = "toolbus.queue.age"
	FollowerLag        Number = "toolbus.follower.lag"
	RecordLag          Number = "toolbus.record.lag"
	StreamSize         Number = "toolbus.stream.size"
	StreamLimit        Number = "toolbus.stream.limit"
	StreamMessages     Number = "toolbus.stream.messages"
	ReplicasAway       Number = "toolbus.replica.away"
	ClockOffset        Number = "toolbus.clock.offset"
	PolicyRevision     Number = "toolbus.policy.revision"
	LocksActive        Number = "toolbus.lock.active"
	CallsOpen          Number = "toolbus.call.open"
	ToolTier           Number = "toolbus.tool.tier"
	TokensRenewed      Number = "toolbus.token.renewal.count"
	TokensNotRenewed   Number = "toolbus.token.refusal.count"
	ConnectionsRefused Number = "toolbus.connection.refusal.count"
)

// number describes a [Number].
type number struct {
	name            Number
	unit, attribute string // empty if it has none
	counts          bool
	about           string
}

func numbers() []number {
	return []number{
		{QueueDepth, "", "pool", false, "Attempts that wait for an executor"},
		{QueueAge, "s", "pool", false, "Time since the admission of the oldest of them"},
		{FollowerLag, "s", "", false, "Age of the oldest event of the call log that the dispatcher has not read"},
		{RecordLag, "s", "", false, "Age of the oldest event that the dispatcher has read and that is not on record"},
		{StreamSize, "By", "stream", false, "Bytes of a stream"},
		{StreamLimit, "By", "stream", false, "Largest number of bytes of a stream"},
		{StreamMessages, "", "stream", false, "Messages of a stream; those of DEAD are dead letters"},
		{ReplicasAway, "", "stream", false, "Replicas of a stream that are away or have not caught up"},
		{ClockOffset, "s", "", false, "How far the clock of the server is ahead of that of the dispatcher"},
		{PolicyRevision, "", "", false, "Revision of the policy in force; 0 without one"},
		{LocksActive, "", "", false, "Safety locks in force"},
		{CallsOpen, "", tenantKey, false, "Attempts that have no outcome yet"},
		{ToolTier, "", "tool", false, "Tier of a tool that declares one, from 1 to 4"},
		{TokensRenewed, "", "", true, "Tokens that were renewed"},
		{TokensNotRenewed, "", "", true, "Tokens that were not renewed, because that was refused"},
		{ConnectionsRefused, "", "", true, "Connections that were refused"},
	}
}

// tenantKey is the attribute with a tenant.
const tenantKey = "tenant"

// Say tells the value of a [Number]. of is the pool, the stream, the tenant or the tool that it is
// of.
type Say func(n Number, of string, value float64)

// Watch calls look whenever the metrics are read, until stop. look must return soon, because the reader waits for it.
func (m *Meter) Watch(look func(context.Context, Say)) (stop func(), err error) {
	known, all := map[Number]watched{}, []metric.Observable{}
	for _, n := range numbers() {
		of, failed := n.instrument(m.meter)
		known[n.name], all, err = watched{n, of}, append(all, of), errors.Join(err, failed)
	}
	if err != nil {
		return nil, err
	}
	r, err := m.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		others := map[Number]float64{} // of the tenants without a series, together
		look(ctx, func(n Number, of string, value float64) {
			if known[n].attribute == tenantKey {
				if of = m.series.tenant(of); of == other {
					others[n] += value
					value = others[n]
				}
			}
			known[n].observe(o, of, value)
		})
		return nil
	}, all...)
	if err != nil {
		return nil, err
	}
	return func() { _ = r.Unregister() }, nil // no provider of today returns an error
}

// watched is a number with its instrument.
type watched struct {
	number
	instrument metric.Float64Observable
}

func (n number) instrument(m metric.Meter) (metric.Float64Observable, error) {
	if n.counts {
		return m.Float64ObservableCounter(string(n.name), metric.WithDescription(n.about), metric.WithUnit(n.unit))
	}
	return m.Float64ObservableGauge(string(n.name), metric.WithDescription(n.about), metric.WithUnit(n.unit))
}

func (w watched) observe(o metric.Observer, of string, value float64) {
	if w.attribute == "" {
		o.ObserveFloat64(w.instrument, value)
		return
	}
	o.ObserveFloat64(w.instrument, value, metric.WithAttributes(attribute.String(w.attribute, of)))
}
