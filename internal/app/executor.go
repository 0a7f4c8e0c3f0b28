package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
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
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// ExecutorOptions configures an executor process.
type ExecutorOptions struct {
	Tools    *tool.Set
	Adapters map[string]tool.Adapter
	Pool     string        // default tool.DefaultPool
	Version  string        // of Toolbus, for heartbeats
	Slots    int           // number of calls that run at a time; default DefaultSlots
	Drain    time.Duration // time that running calls get after ctx ends; default DefaultDrain
	Host     string        // name of the machine, for heartbeats
	Ready    func()
}

// Defaults of [ExecutorOptions].
const (
	DefaultSlots = 16
	DefaultDrain = 10 * time.Second
)

// RunExecutor works until ctx ends. Then it stops in the order that the package comment gives. The owner of the
// connection flushes it.
func RunExecutor(ctx context.Context, c *Conn, o ExecutorOptions) (err error) {
	o.Pool, o.Slots = cmp.Or(o.Pool, tool.DefaultPool), cmp.Or(o.Slots, DefaultSlots)
	o.Drain = cmp.Or(o.Drain, DefaultDrain)
	if err := c.mayExecute(o.Pool); err != nil {
		return err
	}
	if err := executor.Runnable(o.Tools.List(), o.Adapters, o.Pool); err != nil {
		return err
	}
	if err := supervisor.Undumpable(); err != nil {
		return err
	}
	stops := stops{log: c.Logger}
	defer func() { err = stops.stop(err) }()
	stops.push("adapters", func() { rest(o.Adapters) })
	serve(ctx, o.Adapters, o.Slots)
	e, err := openExecutor(ctx, c, o)
	if err != nil {
		return err
	}
	stops.push("pause before reconnects", c.Token.Before(e.workers.Pause))
	background := newBackground(ctx) // running calls outlive the intake by at most Drain
	stops.pushErr("background", background.stop)
	stop, err := e.startControl(ctx)
	if err != nil {
		return err
	}
	stops.push("control", stop)
	background.run(e.beat, e.executor.Confirm, e.keepLocks, e.recheck, e.watchTools, e.followTools, e.regainRights,
		e.runClock)
	background.run(func(hand context.Context) {
		select {
		case <-ctx.Done():
		case <-hand.Done():
		}
		timer.Sleep(hand, o.Drain)
		background.cancel()
	})
	if o.Ready != nil {
		o.Ready()
	}
	e.workers.Run(background.ctx, ctx, c.NC)
	return nil
}

// mayExecute returns an error if the process has a token that is not for an executor of the pool. The server would drop
// its messages without an answer.
func (c *Conn) mayExecute(pool string) error {
	if c.Token == nil {
		return nil
	}
	p, is := c.Token.Principal(), ""
	switch {
	case p.Role != auth.Executor:
		is = "the role " + string(p.Role)
	case p.Pool != pool:
		is = "an executor of pool " + p.Pool
	default:
		return nil
	}
	return fmt.Errorf("the token of %s is of %s, and this executor needs one of the role executor for pool %s: "+
		"an operator issues it with `toolbus credentials issue --role executor --actor executor://NAME --pool %[3]s "+
		"--out FILE`", p.Actor, is, pool)
}

// executorProcess holds the parts of an executor.
type executorProcess struct {
	*node
	executor   *executor.Executor
	options    ExecutorOptions
	api        *executorapi.Client
	board      *lock.Board
	pools      *heartbeat.Store
	workers    *workqueue.Puller
	reconnects *bus.ReconnectWatch
	unrunnable atomic.Pointer[[]heartbeat.UnrunnableTool]
}

// openExecutor waits until a dispatcher answers with the settings of the bus, and makes the parts of an executor.
func openExecutor(ctx context.Context, c *Conn, o ExecutorOptions) (*executorProcess, error) {
	inbox, err := c.control.Inbox(o.Pool, c.Instance) // closed with the connection
	if err != nil {
		return nil, err
	}
	api := &executorapi.Client{Inbox: inbox, Pool: o.Pool, Instance: c.Instance, NewNonce: c.NewNonce, Log: c.Logger}
	n, err := openRemote(ctx, c, api)
	if err != nil {
		return nil, err
	}
	useLogins(o.Adapters, executorapi.Logins{Client: api})
	e := &executorProcess{node: n, options: o, api: api, board: lock.NewBoard()}
	e.pools = heartbeat.NewRemoteStore(c.JS, n.Lease, api.Beat)
	e.pools.RunsReach = runsReach(o.Adapters)
	e.executor = executor.New(executor.Options{
		Instance: subjects.Instance(o.Pool, c.Instance), Catalog: o.Tools, Adapters: o.Adapters, CallLog: n.Log,
		Replies: rpc.NewReplies(c.NC, c.Logger),
		Payloads: streaming.NewPayloads(
			streaming.NewStore(c.JS, subjects.PayloadsStream).Through(api.Newest), envelope.MaxPayload),
		Streams:  streams{n, streaming.NewStore(c.JS, subjects.ChunksStream).Through(api.Newest)},
		Liveness: e.pools, Records: api, Watermark: api, Locks: e.board, Now: n.Clock.Now,
		Question: inbox.Question, NewNonce: c.NewNonce, Lease: n.Lease, PayloadMemory: c.PayloadMemory,
		Trace: c.Trace, Logger: c.Logger,
	})
	e.reconnects = &bus.ReconnectWatch{NC: c.NC, Notify: e.executor.ControlReady}
	e.workers, err = workqueue.New(ctx, api, o.Pool, n.Log.Partitions(), o.Slots, n.Lease,
		func(ctx context.Context, w *workqueue.Message) {
			e.reconnects.Check()
			e.executor.Handle(ctx, executor.Message{Entry: w.Entry, Deliveries: w.Deliveries, Lease: w})
		})
	if err != nil {
		return nil, err
	}
	e.workers.Log = c.Logger
	e.pools.Pulls, e.pools.Definitions, e.pools.Missing = e.workers.Pulls, e.definitions, e.missing
	e.pools.Builds, e.pools.Unrunnable = e.builds, e.unrunnableTools
	started := n.Clock.Now().UTC()
	e.pools.Load = func() heartbeat.Load {
		return heartbeat.Load{
			Version: o.Version, Host: o.Host, PID: os.Getpid(), Slots: o.Slots, Running: e.executor.Running(), Started: started,
		}
	}
	return e, nil
}

// startControl listens for kills, and stores the first heartbeat.
func (e *executorProcess) startControl(ctx context.Context) (stop func(), err error) {
	stop, err = e.control.ServeControl(e.options.Pool, e.Instance, e.executor)
	if err != nil {
		return nil, err
	}
	if err := e.NC.FlushTimeout(5 * time.Second); err != nil {
		stop()
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	e.executor.ControlReady()
	if err := e.storeHeartbeat(ctx); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

func (e *executorProcess) storeHeartbeat(ctx context.Context) error {
	sent := e.Clock.Now()
	err := e.pools.Beat(ctx, e.options.Pool, e.Instance)
	if err == nil {
		e.executor.HeartbeatStored(sent)
	}
	return err
}

// beat stores a heartbeat and extends the leases of the messages in progress: every third of a lease, after each
// reconnect, and when the state changes that heartbeats report.
func (e *executorProcess) beat(ctx context.Context) {
	status := e.NC.StatusChanged(nats.CONNECTED)
	defer e.NC.RemoveStatusListener(status)
	tick := time.NewTicker(e.Lease / 3)
	defer tick.Stop()
	for told := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-status:
		case <-e.workers.Changed():
		case <-e.executor.MissingChanged():
		case <-tick.C:
		}
		e.reconnects.Check()
		e.executor.InProgress()
		once, cancel := context.WithTimeout(ctx, e.Lease/3)
		err := e.storeHeartbeat(once)
		if err != nil && ctx.Err() == nil && !told && e.NC.IsConnected() { // a loss is logged by itself
			e.Logger.Warn("heartbeats are not stored: other executors may take over the calls of this one", "err", err)
			told = true
		}
		told = told && err != nil
		cancel()
	}
}

func (e *executorProcess) keepLocks(ctx context.Context) { e.api.KeepLocks(ctx, e.board) }

// streams opens the chunk stream of a run.
type streams struct {
	node  *node
	store *streaming.Store
}

func (s streams) Open(ctx context.Context, st call.State, attempt int, fence uint64, limit int64) executor.Stream {
	a, _ := st.Attempt(attempt)
	return streaming.NewRun(ctx, s.store, chunkSubject(s.node.Identity, st, a, fence), streaming.WriterOptions{
		MaxBytes: limit, Proof: subjects.ChunkProof(a.Owner.Reply, st.ID),
	})
}
