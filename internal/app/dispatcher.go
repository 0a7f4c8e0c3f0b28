package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/executor/executorapi"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/policy/lockstore"
	"github.com/seed-018f16cc/toolbus/internal/policy/runstore"
	policystore "github.com/seed-018f16cc/toolbus/internal/policy/store"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// DispatcherOptions configures a dispatcher process.
type DispatcherOptions struct {
	Tools    *tool.Set
	AuditLag time.Duration // see dispatcher.Options
	Strict   bool          // see dispatcher.Options
	// PoolAbsence is PoolAbsence of dispatcher.Options; values below the lease are raised to it.
	PoolAbsence time.Duration
	// OpenPerActor, OpenPerTenant and OverflowAfter are the options of the same names in dispatcher.Options.
	OpenPerActor, OpenPerTenant, OverflowAfter int
	// DefaultRole and DefaultLane are the options of the same names in dispatcher.Options.
	DefaultRole, DefaultLane string
	// AllowAll puts in force a policy that allows every call of Tools, before the dispatcher serves, unless an operator
	// has pushed one. The policy is that of `toolbus policy init`, with the default role and lane.
	AllowAll bool
	// OlderBuilds lets the dispatcher work with executors and clients of build f16d274: see toolbus.DispatcherOptions.
	OlderBuilds bool

	Tokens  *auth.Verifier // see dispatcher.Options; if the Conn has Keys, RunDispatcher sets it
	store   *tokenstore.Store
	locks   *lockstore.Store
	journal *writer.Journal
	policy  *policystore.Store
	runs    *runstore.Store
	Version string // of the product; shown by NATS service discovery
	Ready   func() // called once, when the dispatcher serves for the first time; may be nil
}

// RunDispatcher serves until ctx ends. If the server has lost writes that were not synced, the dispatcher discards its
// state and starts again, as often as needed. Once it has served or started again, it also starts again after any other
// failure: the server may go away before the dispatcher follows the log. If ctx ends meanwhile, RunDispatcher returns
// nil.
func RunDispatcher(ctx context.Context, c *Conn, o DispatcherOptions) error {
	if err := openDispatcher(ctx, c); err != nil {
		return err
	}
	serves, ready := false, o.Ready
	o.Ready = func() {
		if !serves && ready != nil {
			ready()
		}
		serves = true
	}
	if err := warnOfRetention(ctx, c, o.Tools); err != nil {
		return err
	}
	store, end, err := openAuthority(ctx, c)
	if err != nil {
		return err
	}
	defer end()
	if o.store = store; store != nil {
		o.Tokens = store.Verifier()
	}
	c.tokens = o.Tokens != nil
	locks, unread, err := openLocks(ctx, c)
	if err != nil {
		return err
	}
	defer unread()
	o.locks = locks
	stop, err := openCallout(c, o.Tools, store, o.OlderBuilds)
	if err != nil {
		return err
	}
	defer stop()
	for again := false; ; again = true {
		err := runDispatcher(ctx, c, o, again)
		if (format.Newer(err) || serves && format.IsUnsupported(err)) && ctx.Err() == nil {
			waitAsStandby(ctx, c, err)
			continue
		}
		lost := errors.Is(err, kv.ErrStreamRolledBack)
		if err == nil || !lost && !again && !serves {
			return err
		}
		if ctx.Err() != nil {
			c.Logger.Error("stopped while the server was in trouble", "err", err)
			return nil
		}
		c.Logger.Error("starting over", "err", err)
		if !lost {
			timer.Sleep(ctx, restartDelay)
		}
	}
}

// openDispatcher creates or verifies the topology, opens the call log, and measures the bus clock.
func openDispatcher(ctx context.Context, c *Conn) (err error) {
	c.Lease = cmp.Or(max(c.Lease, 0), bus.DefaultLease)
	c.Topology.Logger = c.Logger
	if err := bus.Ensure(ctx, c.JS, c.Topology); err != nil {
		return err
	}
	if c.Fsync && c.KV.Group == 0 {
		c.KV.Group = kv.DefaultBatch
	}
	if c.Keys != nil {
		c.KV.Passes = passable
	}
	if c.Log, err = kv.OpenLog(ctx, c.JS, c.KV); err != nil {
		return err
	}
	c.Topology.Partitions = c.Log.Partitions() // for the next Ensure, which creates a lost stream again
	c.Clock, err = bus.NewClock(ctx, c.JS, c.local)
	return err
}

// absence returns PoolAbsence, or the lease if that is longer, because a live executor may be silent for a lease.
func absence(c *Conn, o DispatcherOptions) time.Duration {
	return max(cmp.Or(o.PoolAbsence, dispatcher.DefaultPoolAbsence), c.Lease)
}

// waitAsStandby waits until the event that this build cannot read has expired, or for kv.StandBy if err names no event.
// Meanwhile dispatchers of another build do the work.
func waitAsStandby(ctx context.Context, c *Conn, err error) {
	c.notices.Log(c.Logger, "standing by for dispatchers of another build: nothing is admitted or decided here", err)
	if u, ok := errors.AsType[*kv.Unreadable](err); ok {
		u.Gone(ctx, c.JS)
		return
	}
	timer.Sleep(ctx, kv.StandBy)
}

// warnOfRetention logs the tools whose outcomes are retained for longer than the payload store keeps the large outputs
// that those outcomes reference.
func warnOfRetention(ctx context.Context, c *Conn, r *tool.Set) error {
	stream, err := c.JS.Stream(ctx, subjects.PayloadsStream)
	if err != nil {
		return fmt.Errorf("payload store: %w", err)
	}
	age := stream.CachedInfo().Config.MaxAge
	for _, m := range r.List() {
		if age > 0 && m.Retention > age {
			c.Logger.Warn("outcomes outlive their large outputs: raise max_age of the stream, or lower retention_s of the tool",
				"tool", m.ToolID, "retention", m.Retention, "stream", subjects.PayloadsStream, "max_age", age)
		}
	}
	return nil
}

// restartDelay is the pause after a failure before the dispatcher starts again.
const restartDelay = time.Second

// runDispatcher serves until ctx ends. At shutdown it first stops taking requests, then answers those in progress, then
// completes the audit record, then stops guardian and projectors. The owner of the connection flushes it. again means
// that this is not the first start: the streams may be lost, and are then created again.
func runDispatcher(ctx context.Context, c *Conn, o DispatcherOptions, again bool) error {
	if again || o.Tokens != nil {
		c.Topology.DirectRecord = o.Tokens != nil
		if err := bus.Ensure(ctx, c.JS, c.Topology); err != nil {
			return err
		}
	}
	if err := makeWork(ctx, c, o.Tools); err != nil {
		return err
	}
	pools, err := heartbeat.OpenStore(ctx, c.JS, c.Lease)
	if err != nil {
		return err
	}
	if o.policy, err = openPolicy(ctx, c, o.Tools); err != nil {
		return err
	}
	if o.runs, err = runstore.Open(ctx, c.JS); err != nil {
		return err
	}
	store := c.Log.FillLevel()
	// the projectors need d for the oldest open attempts, and d needs the projectors' lag
	var d *dispatcher.Dispatcher
	readers, err := readParts(ctx, c, func(p subjects.Partition) uint64 { return d.ReplayFrom(p) })
	if err != nil {
		return err
	}
	vitals := &condition{store, readers}
	journal := writer.NewJournal(c.JS, "dispatcher-"+c.Instance, c.Clock.Now, c.NewNonce, c.Logger)
	evidence := newEvidence(c, pools, o.Tools)
	evidence.Look(ctx) // before the first call is admitted
	findings := &heartbeat.Findings{}
	deaf, err := listenToBeats(c, findings)
	if err != nil {
		return err
	}
	defer deaf()
	bulk, err := openBulk(c)
	if err != nil {
		return err
	}
	defer bulk.close()
	shares := newShares(c)
	coverage := writer.NewWatermark(c.JS, c.Log.Partitions(), c.Logger)
	executors := &executorapi.Server{
		Payloads: bulk.payloads, Chunks: streaming.NewStore(c.JS, subjects.ChunksStream),
		NC: c.NC, JS: c.JS, CallLog: c.Log, Clock: c.Clock, Pools: pools, Journal: journal, Watermark: coverage,
		Locks: o.locks.Board,
		Made:  poolsOf(o.Tools), Lease: c.Lease, Fsync: c.Fsync, Identity: c.tokens, Log: c.Logger,
		OlderBuilds: o.OlderBuilds,
	}
	d = dispatcher.New(dispatcher.Options{
		CheckOptions: dispatcher.CheckOptions{
			Catalog: o.Tools, Payloads: bulk.payloads, Policy: o.policy, Runs: o.runs, Tokens: o.Tokens, Locks: o.locks.Board,
			Definitions: findings, OlderBuilds: o.OlderBuilds, DefaultRole: o.DefaultRole, DefaultLane: o.DefaultLane,
			Fsync: c.Fsync, Strict: o.Strict, PayloadMemory: c.PayloadMemory, OverQuota: shares.OverQuota,
		},
		PoolEvidence: evidence, Builds: builds{findings, pools}, Control: c.control, PoolAbsence: absence(c, o),
		Strange: c.KV.Passes, Names: o.Tools, CallLog: c.Log, Replies: rpc.NewReplies(c.NC, c.Logger),
		Capacity: vitals, Records: journal, Pools: pools, Now: c.Clock.Now, Instance: c.Instance, NewNonce: c.NewNonce,
		AuditLag: o.AuditLag, Partitions: c.Log.Partitions(),
		OpenPerActor: o.OpenPerActor, OpenPerTenant: o.OpenPerTenant, OverflowAfter: o.OverflowAfter,
		Trace: c.Trace, Logger: c.Logger,
	})

	// The background outlives the intake, because requests in progress need it.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, background := errgroup.WithContext(background)
	g.Go(func() error { return d.Run(background) })
	for _, r := range readers {
		g.Go(func() error { return r.projector.Run(background) })
		g.Go(func() error {
			return r.follower.Run(background, r.from, func(o kv.FollowedEvent) {
				d.Observe(background, o.Kind, o.Attempt, o.State)
				r.projector.Observe(background, o)
			})
		})
	}
	g.Go(func() error { c.Clock.Run(background, clockInterval); return nil })
	for _, run := range []func(context.Context){
		store.Run, shares.Run, journal.Run, evidence.Run, coverage.Run, o.policy.Run,
	} {
		g.Go(func() error { run(background); return nil })
	}
	o.journal = journal
	if err := serve(ctx, background, stop, c, d, executors, bulk, shares, o); err != nil {
		stop()
		return errors.Join(err, g.Wait())
	}
	flush(background, c, readers, journal)
	stop()
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// logReader follows one partition of the call log and writes its events to the audit record.
type logReader struct {
	follower  *kv.Follower
	projector *writer.Projector
	from      uint64 // sequence at which it starts
}

// readParts returns a reader for each partition. oldest must return the sequence of the oldest open attempt of a
// partition.
func readParts(ctx context.Context, c *Conn, oldest func(subjects.Partition) uint64) ([]logReader, error) {
	var all []logReader
	for p := range subjects.Partition(c.Log.Partitions()) {
		projector, from, err := writer.NewProjector(ctx, c.JS, p, c.Logger, func() uint64 { return oldest(p) })
		if err != nil {
			return nil, err
		}
		follower := kv.NewFollower(c.JS, p)
		if c.Keys != nil {
			follower.Passes, follower.Log = passable, c.Logger
		}
		all = append(all, logReader{follower, projector, from})
	}
	return all, nil
}

// keyed is the prefix of the instance names of dispatchers that have the deployment's keys. The auth callout accepts no
// executor with such a name.
const keyed = "d-"

// passable reports whether the follower may skip an unreadable event of this instance, so that the event stops only its
// own call. That holds for executors: they can write any content. Unreadable events of dispatchers are never skipped,
// because they may come from a newer build. Dispatchers are upgraded before executors, so no correct executor writes
// events that its dispatchers cannot read.
func passable(instance string) bool { return !strings.HasPrefix(instance, keyed) }

// flushTime is the time in which a stopping dispatcher completes the audit record. Another dispatcher records the rest,
// or this one when it starts again.
const flushTime = 2 * time.Second

// flush writes the remaining events of the log, and the counts of refusals, to the audit record. It does nothing
// without a connection.
func flush(ctx context.Context, c *Conn, readers []logReader, journal *writer.Journal) {
	if !c.NC.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	var g errgroup.Group
	g.Go(func() error { return journal.Flush(ctx) })
	for _, r := range readers {
		g.Go(func() error { return errors.Join(r.follower.CatchUp(ctx), r.projector.Flush(ctx)) })
	}
	if err := g.Wait(); err != nil {
		c.Logger.Warn("stopping before all is on record", "err", err)
	}
}

// answerTime is the time that requests in progress get when the dispatcher stops. After that, their senders must send
// them to another dispatcher.
const answerTime = 5 * time.Second

// serve answers requests until ctx ends or the background fails. Then it waits for the requests in progress, and calls
// stop, which ends the background, if they take longer than answerTime.
func serve(ctx, background context.Context, stop context.CancelFunc, c *Conn, d *dispatcher.Dispatcher,
	executors *executorapi.Server, bulk *bulk, shares *payloadQuota, o DispatcherOptions) error {
	if err := allowAll(ctx, c, o); err != nil {
		return err
	}
	defer executors.Stop()
	if err := executors.Serve(background); err != nil {
		return err
	}
	f, err := openRequestConn(c.NC, "requests", c.Logger)
	if err != nil {
		return err
	}
	defer f.close()
	c.requests.Store(f)
	svc, err := rpc.Serve(background, f.nc, c.Logger, o.Version, endpoints(c, d, bulk.payloads, o))
	if err != nil {
		return err
	}
	intake, err := rpc.Listen(background, f.nc, c.Logger, func(ctx context.Context, in *call.IncomingRequest) {
		in.Received = c.Clock.Now()
		d.Handle(ctx, in)
	}, d.RejectOverload)
	if err != nil {
		return err
	}
	f.serves(intake, svc)
	noParts, err := bulk.take(background, c, shares)
	if err != nil {
		return err
	}
	defer noParts()
	deaf, err := c.control.OnJoinerLeft(d.RemoveJoiner)
	if err != nil {
		return err
	}
	defer deaf()
	for _, nc := range []*nats.Conn{c.NC, f.nc, bulk.nc} {
		if err := nc.FlushTimeout(5 * time.Second); err != nil {
			return fmt.Errorf("subscribe: %w", err)
		}
	}
	o.Ready()
	select {
	case <-ctx.Done():
	case <-background.Done():
	}
	limit := time.AfterFunc(answerTime, stop)
	defer limit.Stop()
	intake.Stop()
	return svc.Stop()
}

// condition tells the dispatcher the fill level of the call log and the lag of the audit record.
type condition struct {
	*kv.FillLevel
	readers []logReader
}

// AuditBehind returns the lag of the audit record. It uses the local monotonic clock, and only counts time during which
// the server answered: a changed clock of the server, or its absence, must not cause refusals.
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

func newEvidence(c *Conn, pools *heartbeat.Store, r *tool.Set) evidence {
	return evidence{heartbeat.NewAbsenceMonitor(pools, c.Clock.Now, poolsOf(r)...), workqueue.NewDeliveries(c.JS)}
}

// builds tells the dispatcher which builds of tools executors do not have.
type builds struct {
	*heartbeat.Findings
	*heartbeat.Store
}

// listenToBeats passes the heartbeats of all executors to findings, until deaf is called.
func listenToBeats(c *Conn, findings *heartbeat.Findings) (deaf func(), err error) {
	sub, err := c.NC.Subscribe(subjects.PoolsAll, findings.Hear)
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

// makeWork creates the consumers from which the executors of all pools pull.
func makeWork(ctx context.Context, c *Conn, r *tool.Set) error {
	for _, pool := range poolsOf(r) {
		if err := workqueue.Keep(c.JS, pool, c.Log.Partitions(), c.Lease).Ensure(ctx); err != nil {
			return err
		}
	}
	return nil
}
