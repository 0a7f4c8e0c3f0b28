package app

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor"
	"github.com/seed-018f16cc/toolbus/internal/executor/executorapi"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// ExecutorOptions configures an executor process.
type ExecutorOptions struct {
	Tools    *tool.Set
	Adapters map[string]tool.Adapter
	Pool     string        // default tool.DefaultPool
	Slots    int           // number of calls that run at a time; default DefaultSlots
	Drain    time.Duration // time that running calls get after ctx ends; default DefaultDrain
	Ready    func()
}

// Defaults of [ExecutorOptions].
const (
	DefaultSlots = 16
	DefaultDrain = 10 * time.Second
)

// RunExecutor works until ctx ends. At shutdown it first stops pulling work. Running calls may finish within Drain;
// then they are killed and their messages handed back. Then the heartbeats stop. The owner of the connection flushes
// it.
func RunExecutor(ctx context.Context, c *Conn, o ExecutorOptions) error {
	o.Pool, o.Slots = cmp.Or(o.Pool, tool.DefaultPool), cmp.Or(o.Slots, DefaultSlots)
	o.Drain = cmp.Or(o.Drain, DefaultDrain)
	if err := executor.Runnable(o.Tools.List(), o.Adapters, o.Pool); err != nil {
		return err
	}
	if err := supervisor.Undumpable(); err != nil {
		return err
	}
	defer rest(o.Adapters)
	counter, err := openExecutor(ctx, c, o.Pool)
	if err != nil {
		return err
	}
	pools := heartbeat.NewRemoteStore(c.JS, c.Lease, counter.Beat)
	board := lock.NewBoard()
	e := executor.New(executor.Options{
		Instance: subjects.Instance(o.Pool, c.Instance), Catalog: o.Tools, Adapters: o.Adapters, CallLog: c.Log,
		Replies:  rpc.NewReplies(c.NC, c.Logger),
		Payloads: payloadsOf(streaming.NewStore(c.JS, subjects.PayloadsStream).Through(counter.Newest)),
		Streams:  streams{c, streaming.NewStore(c.JS, subjects.ChunksStream).Through(counter.Newest)},
		Liveness: pools, Records: counter, Watermark: counter, Locks: board, Now: c.Clock.Now,
		NewNonce: c.NewNonce, Lease: c.Lease, PayloadMemory: c.PayloadMemory,
		Trace: c.Trace, Logger: c.Logger,
	})
	reconnects := &bus.ReconnectWatch{NC: c.NC, Notify: e.ControlReady}
	workers, err := workqueue.New(ctx, counter, o.Pool, c.Log.Partitions(), o.Slots, c.Lease,
		func(ctx context.Context, w *workqueue.Message) {
			reconnects.Check()
			e.Handle(ctx, executor.Message{Entry: w.Entry, Deliveries: w.Deliveries, Lease: w})
		})
	if err != nil {
		return err
	}
	workers.Log = c.Logger
	pools.PullsOverflow = workers.PullsOverflow
	pools.Definitions = func() heartbeat.Definitions { return definitions(o) }
	pools.Missing = func() []heartbeat.MissingBuild { return missing(e) }
	defer c.TokenConn.Before(workers.Pause)()
	keepLocks := func(ctx context.Context) { counter.KeepLocks(ctx, board) }
	return run(ctx, c, o, e, workers, pools, reconnects, keepLocks)
}

// openExecutor waits until a dispatcher answers with the settings of the bus, and opens the call log and the clock.
func openExecutor(ctx context.Context, c *Conn, pool string) (*executorapi.Client, error) {
	inbox, err := c.control.Inbox(pool, c.Instance) // closed with the connection
	if err != nil {
		return nil, err
	}
	counter := &executorapi.Client{Inbox: inbox, Pool: pool, Instance: c.Instance, NewNonce: c.NewNonce, Log: c.Logger}
	h, err := counter.Hello(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.agree(h); err != nil {
		return nil, err
	}
	c.Log = kv.NewRemoteLog(c.JS, h.Partitions, h.Replicas, counter, c.KV)
	if c.Clock, err = bus.NewClockOf(ctx, counter.Time, c.local); err != nil {
		return nil, err
	}
	counter.Now = c.Clock.Now
	return counter, nil
}

// agree adopts the settings that a dispatcher sent. It returns an error if the configured number of partitions or
// replicas contradicts them: the executor is then probably connected to the wrong bus. A different lease is only
// logged.
func (c *Conn) agree(h executorapi.HelloResponse) error {
	switch o := c.Topology; {
	case o.Partitions != 0 && o.Partitions != h.Partitions:
		return fmt.Errorf("the call log has %d partitions, not %d: leave that out, or name another bus", h.Partitions,
			o.Partitions)
	case o.Replicas > h.Replicas:
		return fmt.Errorf("%d servers hold the call log, and not %d: say so, or name another bus", h.Replicas, o.Replicas)
	}
	if c.Lease > 0 && c.Lease != h.Lease() {
		c.Logger.Warn("using the lease of the dispatchers", "configured", c.Lease, "lease", h.Lease())
	}
	c.Lease, c.Fsync, c.tokens = h.Lease(), h.Fsync, h.Identity
	if c.Fsync && c.KV.Group == 0 {
		c.KV.Group = kv.DefaultBatch
	}
	return nil
}

func run(ctx context.Context, c *Conn, o ExecutorOptions, e *executor.Executor, workers *workqueue.Puller,
	pools *heartbeat.Store,
	reconnects *bus.ReconnectWatch, keepLocks func(context.Context)) error {
	deaf, err := c.control.ServeControl(o.Pool, c.Instance, e)
	if err != nil {
		return err
	}
	if err := c.NC.FlushTimeout(5 * time.Second); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	e.ControlReady()
	sent := c.Clock.Now()
	if err := pools.Beat(ctx, o.Pool, c.Instance); err != nil {
		return err
	}
	e.HeartbeatStored(sent)
	// Running calls outlive the intake by at most Drain.
	hand, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var tasks sync.WaitGroup
	tasks.Go(func() { beat(hand, c, o, e, pools, reconnects, workers.Changed()) })
	tasks.Go(func() { e.Confirm(hand) })
	tasks.Go(func() { keepLocks(hand) })
	tasks.Go(func() { recheck(hand, c.Lease/3, o) })
	tasks.Go(func() { c.Clock.Run(hand, clockInterval) })
	tasks.Go(func() {
		select {
		case <-ctx.Done():
		case <-hand.Done():
		}
		timer.Sleep(hand, o.Drain)
		stop()
	})
	if o.Ready != nil {
		o.Ready()
	}
	workers.Run(hand, ctx, c.NC)
	stop()
	deaf()
	tasks.Wait()
	return nil
}

// beat stores a heartbeat and extends the leases of the messages in progress: every third of a lease, after each
// reconnect, and at each value on news. It does so, too, when work has come for a build that is not here.
func beat(ctx context.Context, c *Conn, o ExecutorOptions, e *executor.Executor, pools *heartbeat.Store,
	reconnects *bus.ReconnectWatch,
	news <-chan struct{}) {
	status := c.NC.StatusChanged(nats.CONNECTED)
	defer c.NC.RemoveStatusListener(status)
	tick := time.NewTicker(c.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-status:
		case <-news:
		case <-e.MissingChanged():
		case <-tick.C:
		}
		reconnects.Check()
		e.InProgress()
		once, cancel := context.WithTimeout(ctx, c.Lease/3)
		sent := c.Clock.Now()
		err := pools.Beat(once, o.Pool, c.Instance)
		switch {
		case err == nil:
			e.HeartbeatStored(sent)
		case ctx.Err() == nil:
			c.Logger.Warn("heartbeat", "err", err)
		}
		cancel()
	}
}

// streams opens the chunk stream of a run.
type streams struct {
	conn  *Conn
	store *streaming.Store
}

func (s streams) Open(ctx context.Context, st call.State, attempt int, fence uint64, limit int64) executor.Stream {
	a, _ := st.Attempt(attempt)
	return streaming.NewRun(ctx, s.store, s.conn.chunkSubject(st, a, fence), streaming.WriterOptions{
		MaxBytes: limit, Proof: subjects.ChunkProof(a.Owner.Reply, st.ID),
	})
}

// chunkSubject returns the subject of the chunks of one run. It contains the pool if the deployment has tokens, because
// permissions then depend on it. Without tokens it is the subject that build f16d274 uses.
func (c *Conn) chunkSubject(s call.State, a call.Attempt, fence uint64) string {
	of := subjects.ChunkSource{Tenant: s.Tenant, Actor: a.Owner.Actor, ID: s.ID, Attempt: a.N, Fence: fence}
	if c.tokens {
		of.Pool = s.Pool
	}
	return of.Subject()
}
