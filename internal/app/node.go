package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor/executorapi"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// node is a process on a bus: its connection, and the settings, the call log and the clock of the bus. Its Lease and
// Fsync are those in force, which may differ from the configured ones in Options.
type node struct {
	*Conn
	Lease    time.Duration
	Fsync    bool
	Identity bool // the deployment has tokens, on which permissions depend
	Log      *kv.Log
	Clock    *bus.Clock
}

// openLocal returns the node of a dispatcher. It creates or verifies the topology, opens the call log, and measures the
// bus clock.
func openLocal(ctx context.Context, c *Conn) (n *node, err error) {
	n = &node{Conn: c, Lease: cmp.Or(max(c.Lease, 0), bus.DefaultLease), Fsync: c.Fsync, Identity: c.Keys != nil}
	topology := c.Topology
	topology.Logger = c.Logger
	if err := bus.Ensure(ctx, c.JS, topology); err != nil {
		return nil, err
	}
	if n.Clock, err = bus.NewClock(ctx, c.JS, c.local); err != nil {
		return nil, err
	}
	o := n.logOptions()
	o.Times = n.Clock.Times
	n.Log, err = kv.OpenLog(ctx, c.JS, o)
	return n, err
}

// topology returns the topology with which a dispatcher creates a lost stream again.
func (n *node) topology() bus.TopologyOptions {
	o := n.Topology
	o.Logger, o.Partitions, o.DirectRecord = n.Logger, n.Log.Partitions(), n.Identity
	return o
}

// openRemote returns the node of an executor, with the settings that a dispatcher sends. It waits until one answers. It
// returns an error if the configured number of partitions or replicas contradicts them: the executor is then probably
// connected to the wrong bus. A different lease is only logged.
func openRemote(ctx context.Context, c *Conn, api *executorapi.Client) (*node, error) {
	h, err := api.Hello(ctx)
	if err != nil {
		return nil, err
	}
	switch o := c.Topology; {
	case o.Partitions != 0 && o.Partitions != h.Partitions:
		return nil, fmt.Errorf("the call log has %d partitions, not %d: leave that out, or name another bus", h.Partitions,
			o.Partitions)
	case o.Replicas > h.Replicas:
		return nil, fmt.Errorf("%d servers hold the call log, and not %d: say so, or name another bus", h.Replicas,
			o.Replicas)
	}
	if c.Lease > 0 && c.Lease != h.Lease() {
		c.Logger.Warn("using the lease of the dispatchers", "configured", c.Lease, "lease", h.Lease())
	}
	n := &node{Conn: c, Lease: h.Lease(), Fsync: h.Fsync, Identity: h.Identity}
	n.Log = kv.NewRemoteLog(c.JS, h.Partitions, h.Replicas, api, n.logOptions())
	if n.Clock, err = bus.NewClockOf(ctx, api.Time, c.local); err != nil {
		return nil, err
	}
	api.Clock = n.Clock
	return n, nil
}

// logOptions returns the options of the call log. If the server syncs every write, events are written in groups.
func (n *node) logOptions() kv.LogOptions {
	o := n.KV
	if n.Keys != nil {
		o.Passes = passable
	}
	if n.Fsync && o.Group == 0 {
		o.Group = kv.DefaultBatch
	}
	return o
}

// runClock measures the bus clock every clockInterval, and soon after a clock was set, until ctx ends.
func (n *node) runClock(ctx context.Context) { n.Clock.Run(ctx, clockInterval) }

// chunkSubject returns the subject of the chunks of one run. It contains the pool if the deployment has tokens, because
// permissions then depend on it.
func chunkSubject(identity bool, s call.State, a call.Attempt, fence uint64) string {
	source := subjects.ChunkSource{Tenant: s.Tenant, Actor: a.Owner.Actor, ID: s.ID, Attempt: a.N, Fence: fence}
	if identity {
		source.Pool = s.Pool
	}
	return source.Subject()
}
