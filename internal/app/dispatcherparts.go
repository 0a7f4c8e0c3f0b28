package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher"
	"github.com/seed-018f16cc/toolbus/internal/executor/executorapi"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/policy/runstore"
	policystore "github.com/seed-018f16cc/toolbus/internal/policy/store"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// dispatcherParts are the parts of a dispatcher from one start to the next.
type dispatcherParts struct {
	*dispatcherProcess
	policy     *policystore.Store
	runs       *runstore.Store
	journal    *writer.Journal
	watermark  *writer.Watermark
	shares     *writer.Shares
	fill       *kv.FillLevel
	readers    []logReader
	keepList   func(context.Context) // writes the list of kept calls
	evidence   evidence
	findings   heartbeat.Findings
	bulk       *bulk
	quota      *payloadQuota
	executors  *executorapi.Server
	repairs    *repairs
	toolPeers  *toolPeers
	dispatcher *dispatcher.Dispatcher
}

// serve serves until ctx ends or a part fails. Then it stops in the order that the package comment gives. The owner of
// the connection flushes it. again means that this is not the first start: the streams may be lost, and are then
// created again.
func (d *dispatcherProcess) serve(ctx context.Context, again bool) (err error) {
	background := newBackground(ctx)
	stops := stops{log: d.Logger}
	defer func() { err = errors.Join(stops.stop(err), background.failure()) }()
	p, err := d.open(ctx, again, &stops)
	if err != nil {
		return err
	}
	stops.pushErr("background", background.stop)
	p.startBackground(background)
	serves := false
	stops.push("audit record", func() {
		if serves {
			p.flush(background.ctx)
		}
	})
	if err := p.startIntake(ctx, background, &stops); err != nil {
		return err
	}
	d.options.admission(p.dispatcher.Stopped)
	if serves = true; !d.served && d.options.Ready != nil {
		d.options.Ready()
	}
	d.served = true
	select {
	case <-ctx.Done():
	case <-background.ctx.Done():
	}
	return nil
}

// open makes the parts of a dispatcher. It reads the policy in force and the heartbeats, for the first call.
func (d *dispatcherProcess) open(ctx context.Context, again bool, s *stops) (p *dispatcherParts, err error) {
	if again || d.Identity {
		if err := bus.Ensure(ctx, d.JS, d.topology()); err != nil {
			return nil, err
		}
	}
	if err := makeWork(ctx, d.node, d.options.Tools); err != nil {
		return nil, err
	}
	pools, err := heartbeat.OpenStore(ctx, d.state.js, d.Lease)
	if err != nil {
		return nil, err
	}
	p = &dispatcherParts{dispatcherProcess: d, fill: d.Log.FillLevel(d.Logger), quota: newShares(d.Conn)}
	if p.policy, err = openPolicy(ctx, d); err != nil {
		return nil, err
	}
	if p.runs, err = runstore.Open(ctx, d.state.js); err != nil {
		return nil, err
	}
	p.runs.Now = d.Clock.Now
	if tokens := d.verifier(); tokens != nil {
		p.runs.Revoked = tokens.Revoked
	}
	p.shares = writer.NewShares(d.JS, d.Logger)
	// the projectors need the dispatcher for the oldest open attempts, and it needs the projectors' lag
	oldest := func(partition subjects.Partition) uint64 { return p.dispatcher.Deadlines.ReplayFrom(partition) }
	if p.readers, err = readParts(ctx, d.node, p.shares, oldest); err != nil {
		return nil, err
	}
	// after it is known where the followers begin
	if p.keepList, err = d.Log.OpenKept(ctx, d.Logger, d.Fsync); err != nil {
		return nil, fmt.Errorf("%w: %w", errLogBehind, err)
	}
	p.journal = writer.NewJournal(d.JS, "dispatcher-"+d.Instance, d.Clock.Now, d.NewNonce, d.Logger)
	p.journal.Shares = p.shares
	p.evidence = newEvidence(d.node, pools, d.options.Tools)
	p.evidence.Look(ctx) // before the first call is admitted
	stop, err := listenToBeats(d.state.nc, &p.findings)
	if err != nil {
		return nil, err
	}
	s.push("heartbeats", stop)
	if p.bulk, err = openBulk(d.Conn); err != nil {
		return nil, err
	}
	s.push("payload connection", p.bulk.close)
	d.options.connected(p.bulk.requestConn)
	p.watermark = writer.NewWatermark(d.JS, d.Log.Partitions(), d.Logger)
	p.executors = &executorapi.Server{
		Payloads: p.bulk.payloads, Chunks: streaming.NewStore(p.bulk.js, subjects.ChunksStream),
		NC: d.NC, JS: d.JS, CallLog: d.Log, Clock: d.Clock, Pools: pools, Journal: p.journal, Watermark: p.watermark,
		Locks: d.locks.Board,
		Made:  poolsOf(d.options.Tools), Lease: d.Lease, Fsync: d.Fsync, Identity: d.Identity, Log: d.Logger,
	}
	p.toolPeers = newToolPeers(d.Instance, d.options.Tools, d.control.TellTools, d.Logger)
	if p.repairs, err = openRepairs(ctx, d); err != nil {
		return nil, err
	}
	p.repairs.record = p.note
	p.dispatcher = p.newDispatcher(pools, &p.findings)
	if stop, err = p.watchNumbers(); err != nil {
		return nil, err
	}
	s.push("numbers", stop)
	return p, nil
}

func (d *dispatcherParts) newDispatcher(pools *heartbeat.Store, findings *heartbeat.Findings) *dispatcher.Dispatcher {
	o := d.options
	return dispatcher.New(dispatcher.Options{
		CheckOptions: dispatcher.CheckOptions{
			Catalog: o.Tools, Payloads: d.bulk.payloads, Policy: d.policy, Runs: d.runs, Tokens: d.verifier(),
			Locks: d.locks.Board, Definitions: findings, DefaultRole: o.DefaultRole,
			DefaultLane: o.DefaultLane, Fsync: d.Fsync, Strict: o.Strict, Intact: o.Intact,
			PayloadMemory: d.PayloadMemory, OverQuota: d.quota.OverQuota,
		},
		DeadlineOptions: dispatcher.DeadlineOptions{
			PoolEvidence: d.evidence, Builds: builds{findings, pools}, PoolAbsence: d.absence(),
		},
		AdmissionOptions: dispatcher.AdmissionOptions{
			Capacity: &condition{d.fill, d.shares, d.readers}, AuditLag: o.AuditLag,
			OpenPerActor: o.OpenPerActor, OpenPerTenant: o.OpenPerTenant, OverflowAfter: o.OverflowAfter,
		},
		Process: dispatcher.Process{
			CallLog: d.Log, Heads: d.Log, Now: d.Clock.Now, Instance: d.Instance, NewNonce: d.NewNonce,
			Strange: d.logOptions().Passes, ToolsDiffer: d.toolPeers.differ, Damage: d.repairs.damage,
			Silent: d.Log.UnackedFor, Trace: d.Trace, Logger: d.Logger,
		},
		Names: o.Tools, Replies: rpc.NewReplies(d.NC, d.Logger), Records: d.journal, Control: d.control, Pools: pools,
		Overflow: d.evidence, Partitions: d.Log.Partitions(), Lease: d.Lease,
	})
}

// startBackground starts the goroutines that requests in progress need.
func (d *dispatcherParts) startBackground(b *background) {
	b.group.Go(func() error { return d.dispatcher.Run(b.ctx) })
	foreign := foreign{d.journal, make(chan call.Event, maxForeign)}
	for _, r := range d.readers {
		r.follower.Foreign = foreign.observe
		b.group.Go(func() error { return r.projector.Run(b.ctx) })
		b.group.Go(func() error {
			return r.follower.Run(b.ctx, r.from, func(o kv.FollowedEvent) {
				d.Log.Followed(o)
				d.dispatcher.Observe(b.ctx, o.Kind, o.Attempt, o.State)
				r.projector.Observe(b.ctx, o)
			})
		})
	}
	b.run(d.runClock, d.Clock.Watch, d.fill.Run, d.quota.Run, d.journal.Run, d.shares.Run, d.evidence.Run,
		d.keepList, d.watermark.Run, d.policy.Run, d.followTools, foreign.run, d.recordRestored)
}

// logReader follows one partition of the call log and writes its events to the audit record.
type logReader struct {
	follower  *kv.Follower
	projector *writer.Projector
	from      uint64 // sequence at which it starts
}

// readParts returns a reader for each partition. oldest must return the sequence of the oldest open attempt of a
// partition.
func readParts(ctx context.Context, c *node, shares *writer.Shares,
	oldest func(subjects.Partition) uint64) ([]logReader, error) {
	var all []logReader
	for p := range subjects.Partition(c.Log.Partitions()) {
		projector, from, err := writer.NewProjector(ctx, c.JS, p, c.Logger, func() uint64 { return oldest(p) })
		if err != nil {
			return nil, err
		}
		projector.Shares = shares
		follower := kv.NewFollower(c.JS, p)
		if c.Keys != nil {
			follower.Passes, follower.Log = passable, c.Logger
		}
		all = append(all, logReader{follower, projector, from})
	}
	return all, nil
}

// flushTime is the time in which a stopping dispatcher completes the audit record. Another dispatcher records the
// rest, or this one when it starts again.
const flushTime = 2 * time.Second

// flush writes the remaining events of the log, and the counts of refusals, to the audit record. It does nothing
// without a connection.
func (d *dispatcherParts) flush(ctx context.Context) {
	if !d.NC.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	var g errgroup.Group
	g.Go(func() error { return d.journal.Flush(ctx) })
	for _, r := range d.readers {
		g.Go(func() error { return errors.Join(r.follower.CatchUp(ctx), r.projector.Flush(ctx)) })
	}
	if err := g.Wait(); err != nil {
		d.Logger.Warn("stopping before all is on record", "err", err)
	}
}

// startIntake takes the requests of executors and clients, and returns when the server knows all subscriptions.
func (d *dispatcherParts) startIntake(ctx context.Context, b *background, s *stops) error {
	if err := d.allowAll(ctx); err != nil {
		return err
	}
	d.warnOfNoPolicy()
	s.push("requests of executors", d.executors.Stop)
	if err := d.executors.Serve(b.ctx); err != nil {
		return err
	}
	f, err := openRequestConn(d.NC, "requests", d.Watch)
	if err != nil {
		return err
	}
	unname := d.peers.Name(f.nc)
	s.push("request connection", func() { unname(); f.close() })
	d.options.connected(f)
	stop, err := d.bulk.take(b.ctx, d.node, d.quota)
	if err != nil {
		return err
	}
	s.push("payload parts", stop)
	if stop, err = d.control.OnJoinerLeft(d.dispatcher.Answers.RemoveJoiner); err != nil {
		return err
	}
	s.push("joiners", stop)
	if stop, err = d.control.OnTools(d.toolPeers.hear); err != nil {
		return err
	}
	s.push("notices of dispatchers", stop)
	b.run(d.toolPeers.run)
	stopRequests, err := d.startRequests(b, f)
	if err != nil {
		return err
	}
	s.pushErr("requests", stopRequests)
	for _, nc := range []*nats.Conn{d.NC, d.state.nc, f.nc, d.bulk.nc} {
		if err := nc.FlushTimeout(5 * time.Second); err != nil {
			return fmt.Errorf("subscribe: %w", err)
		}
	}
	return nil
}

// answerTime is the time that requests in progress get when the dispatcher stops. After that, their senders must send
// them to another dispatcher.
const answerTime = 5 * time.Second

// startRequests answers the requests of clients until stop, which waits for those in progress. If they take longer
// than answerTime, it ends the background.
func (d *dispatcherParts) startRequests(b *background, f *requestConn) (stop func() error, err error) {
	svc, err := rpc.Serve(b.ctx, f.nc, d.Logger, d.options.Version, d.Clock.Now, d.endpoints())
	if err != nil {
		return nil, err
	}
	intake, err := rpc.Listen(b.ctx, f.nc, d.Logger, func(ctx context.Context, in *call.IncomingRequest) {
		in.Received = d.Clock.Now()
		d.dispatcher.Handle(ctx, in)
	}, d.dispatcher.Answers.RejectOverload)
	if err != nil {
		return nil, errors.Join(err, svc.Stop())
	}
	f.serves(intake, svc)
	return func() error {
		limit := time.AfterFunc(answerTime, b.cancel)
		defer limit.Stop()
		intake.Stop()
		return svc.Stop()
	}, nil
}

// condition tells the dispatcher the fill level of the call log, who has more than a share of it or of the audit
// record, and the lag of that.
type condition struct {
	*kv.FillLevel
	*writer.Shares
	readers []logReader
}

// AuditBehind returns the lag of the audit record. It uses the local monotonic clock, and only counts time during
// which the server answered: a changed clock of the server, or its absence, must not cause refusals.
func (h *condition) AuditBehind() (lag time.Duration) {
	now := time.Now()
	for _, r := range h.readers {
		lag = max(lag, r.projector.Lag(r.follower.Served(now)), r.follower.Behind(now))
	}
	return lag
}

// evidence proves that no executor has started an attempt: by heartbeats and by delivery counts.
type evidence struct {
	*heartbeat.AbsenceMonitor
	*workqueue.Deliveries
}

func newEvidence(c *node, pools *heartbeat.Store, r *tool.Set) evidence {
	return evidence{heartbeat.NewAbsenceMonitor(pools, c.Clock.Now, poolsOf(r)...), workqueue.NewDeliveries(c.JS)}
}

// builds tells the dispatcher which builds of tools executors do not have.
type builds struct {
	*heartbeat.Findings
	*heartbeat.Store
}

// listenToBeats passes the heartbeats of all executors to findings, until stop is called.
func listenToBeats(nc *nats.Conn, findings *heartbeat.Findings) (stop func(), err error) {
	sub, err := nc.Subscribe(subjects.PoolsAll, findings.Hear)
	if err != nil {
		return nil, fmt.Errorf("listen to heartbeats: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only if the connection is closed, which ends the subscription too
}

// poolsOf returns the pools of all tools, without duplicates.
func poolsOf(r *tool.Set) (pools []string) {
	for _, m := range r.List() {
		if !slices.Contains(pools, m.Pool) {
			pools = append(pools, m.Pool)
		}
	}
	return pools
}

// fewPools returns an error if the log has no room for the queues of the pools.
func fewPools(pools []string) error {
	if len(pools) <= workqueue.MaxPools {
		return nil
	}
	return fmt.Errorf("the tools name %d pools, and the log has queues for %d: let tools that may run on the same "+
		"executors name the same pool", len(pools), workqueue.MaxPools)
}

// makeWork creates the consumers from which the executors of all pools pull.
func makeWork(ctx context.Context, c *node, r *tool.Set) error {
	pools := poolsOf(r)
	if err := fewPools(pools); err != nil {
		return err
	}
	for _, pool := range pools {
		if err := workqueue.Keep(c.JS, pool, c.Log.Partitions(), c.Lease).Ensure(ctx); err != nil {
			return err
		}
	}
	return nil
}
