package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/executor"
	"github.com/seed-018f16cc/toolbus/internal/form"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/record"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
	"github.com/seed-018f16cc/toolbus/tool"
	"github.com/seed-018f16cc/toolbus/work"
)

// ExecutorOptions tune an executor process.
type ExecutorOptions struct {
	Registry *tool.Registry
	Adapters map[tool.Transport]tool.Adapter
	Pool     string        // default "default"
	Slots    int           // calls at once; default 16
	Drain    time.Duration // how long calls in hand may take to finish at shutdown; default 10 s
	Ready    func()
}

// RunExecutor works until ctx ends. Shutdown order: no more pulls, calls in hand finish or, after
// Drain, are killed and handed back, heartbeats stop, the connection is flushed by its owner.
func RunExecutor(ctx context.Context, c *Conn, o ExecutorOptions) error {
	if o.Pool == "" {
		o.Pool = "default"
	}
	if o.Slots <= 0 {
		o.Slots = 16
	}
	if o.Drain <= 0 {
		o.Drain = 10 * time.Second
	}
	if err := runnable(o); err != nil {
		return err
	}
	pools, err := kv.OpenPools(ctx, c.JS, c.Lease)
	if err != nil {
		return err
	}
	if err := pools.Old(ctx); err != nil {
		return err
	}
	e := executor.New(executor.Options{
		Instance: kv.Instance(o.Pool, c.Instance), Catalog: o.Registry, Adapters: o.Adapters, CallLog: c.Log,
		Replies: owners{bus.NewReplies(c.NC, c.Logger)}, Streams: streams{streaming.NewStore(c.JS, subjects.ChunksStream)},
		Payloads: c.Payloads, Peers: pools, Records: records{c}, Now: c.Clock.Now, NewNonce: c.NewNonce, Lease: c.Lease,
		Observer: c.Observer, Logger: c.Logger,
	})
	line := &line{nc: c.NC, anew: e.Listening}
	workers, err := work.New(ctx, c.JS, o.Pool, o.Slots, c.Lease, func(ctx context.Context, w work.Message) {
		line.check()
		e.Handle(ctx, executor.Message{Entry: w.Entry, Deliveries: w.Deliveries, Lease: w})
	})
	if err != nil {
		return err
	}
	workers.Log = c.Logger
	return run(ctx, c, o, e, workers, pools, line)
}

// runnable says which tools of the pool this host could not run, if any. Better now than call by call.
func runnable(o ExecutorOptions) error {
	var all error
	for _, m := range o.Registry.List() {
		a, here := o.Adapters[m.Transport]
		if !here || m.Pool != o.Pool || !m.Callable() {
			continue
		}
		if err := a.Validate(m); err != nil {
			all = errors.Join(all, fmt.Errorf("tool %s cannot run here: %w", m.ToolID, err))
		}
	}
	return all
}

// line says that the connection was made anew before anything is done with what came over it.
// Its status is told by and by, which is too late for that.
type line struct {
	nc   *nats.Conn
	anew func()

	mu   sync.Mutex
	seen uint64
}

func (l *line) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.nc.Stats().Reconnects; n != l.seen {
		l.seen = n
		l.anew()
	}
}

func run(ctx context.Context, c *Conn, o ExecutorOptions, e *executor.Executor, workers *work.Workers, pools *kv.Pools, line *line) error {
	kills, err := c.NC.Subscribe(subjects.KillWildcard, func(msg *nats.Msg) { killed(c, e, msg) })
	if err != nil {
		return fmt.Errorf("listen for kills: %w", err)
	}
	seeks, err := c.NC.Subscribe(subjects.SeekWildcard, func(msg *nats.Msg) { sought(e, msg) })
	if err != nil {
		return fmt.Errorf("listen for who asks what runs: %w", err)
	}
	if err := c.NC.FlushTimeout(5 * time.Second); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	e.Listening()
	sent := c.Clock.Now()
	if err := pools.Beat(ctx, o.Pool, c.Instance); err != nil {
		return err
	}
	e.Beaten(sent)
	// Calls in hand outlive the intake by at most Drain.
	hand, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var g errgroup.Group
	g.Go(func() error { beat(hand, c, o, e, pools, line); return nil })
	g.Go(func() error { c.Clock.Run(hand, clockInterval); return nil })
	g.Go(func() error {
		select {
		case <-ctx.Done():
		case <-hand.Done():
			return nil
		}
		t := time.NewTimer(o.Drain)
		defer t.Stop()
		select {
		case <-t.C:
			stop()
		case <-hand.Done():
		}
		return nil
	})
	if o.Ready != nil {
		o.Ready()
	}
	workers.Run(hand, ctx, c.NC)
	stop()
	_, _ = kills.Unsubscribe(), seeks.Unsubscribe() // gone with the connection otherwise
	return g.Wait()
}

// beat says every third of a lease that this executor and the work in its hands are alive.
func beat(ctx context.Context, c *Conn, o ExecutorOptions, e *executor.Executor, pools *kv.Pools, line *line) {
	status := c.NC.StatusChanged(nats.CONNECTED)
	defer c.NC.RemoveStatusListener(status)
	tick := time.NewTicker(c.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-status:
		case <-tick.C:
		}
		line.check()
		e.Extend()
		once, cancel := context.WithTimeout(ctx, c.Lease/3)
		sent := c.Clock.Now()
		err := pools.Beat(once, o.Pool, c.Instance)
		switch {
		case err == nil:
			e.Beaten(sent)
		case ctx.Err() == nil:
			c.Logger.Warn("heartbeat", "err", err)
		}
		cancel()
	}
}

func killed(c *Conn, e *executor.Executor, msg *nats.Msg) {
	var k kill
	id, err := subjects.ParseKill(msg.Subject) // as a token of a subject it is short: it is remembered
	if err == nil {
		err = bus.Unstamp(form.Control, msg.Data, &k)
	}
	if err != nil || k.ID != id {
		c.notices.Tell(c.Logger, "a cancel is left to other executors", err)
		return
	}
	if e.Kill(k.ID, k.Attempt, k.Due.Time()) {
		_ = msg.Respond([]byte(killedRunning)) // asked again otherwise
	}
}

// owners answers the caller whose request opened an attempt.
type owners struct{ bus *bus.Replies }

func (r owners) Outcome(o call.Owner, resp *envelope.Response) {
	r.bus.Outcome(o.Reply, o.ContentType, resp)
}

// streams opens the chunk stream of a run when its first chunk comes.
type streams struct{ store *streaming.Store }

func (s streams) Open(ctx context.Context, st call.State, attempt int, fence uint64, limit int64) executor.Stream {
	return &stream{ctx: ctx, store: s.store, state: st, attempt: attempt, fence: fence, limit: limit}
}

type stream struct {
	ctx     context.Context // of the run: a tool's own may end before its chunks are stored
	store   *streaming.Store
	state   call.State
	attempt int
	fence   uint64
	limit   int64
	writer  *streaming.Writer // nil before the first chunk: most runs have none
}

// Emit implements tool.Sink.
func (s *stream) Emit(ctx context.Context, kind envelope.ChunkKind, data jsontext.Value) error {
	if s.writer == nil {
		a, _ := s.state.Attempt(s.attempt)
		subject := subjects.Chunk(s.state.Tenant, a.Owner.Actor, s.state.ID, s.attempt, s.fence)
		s.writer = streaming.NewWriter(s.ctx, s.store, subject, streaming.WriterOptions{MaxBytes: s.limit})
	}
	return fault(s.writer.Emit(ctx, kind, data))
}

// Close implements executor.Stream.
func (s *stream) Close(ctx context.Context) (envelope.Chunks, error) {
	if s.writer == nil {
		return envelope.Chunks{}, nil
	}
	chunks, err := s.writer.Close(ctx)
	return chunks, fault(err)
}

// streamFault is a stream's error with its place in the taxonomy.
type streamFault struct{ error }

func fault(err error) error {
	if err == nil {
		return nil
	}
	return streamFault{err}
}

// Unwrap returns the stream's own error.
func (f streamFault) Unwrap() error { return f.error }

// Fault implements executor.Fault.
func (f streamFault) Fault() *envelope.Error {
	code := envelope.CodeStoreFull
	switch {
	case errors.Is(f, streaming.ErrOutputLimit), errors.Is(f, streaming.ErrChunkSize):
		code = envelope.CodeOutputLimit
	case errors.Is(f, streaming.ErrInvalid):
		code = envelope.CodeToolProtocol
	}
	return envelope.NewError(code, "").WithCause(f.Error()).WithEffect(envelope.EffectUnknown)
}

// records keeps dead letters and late results.
type records struct{ c *Conn }

func (r records) Dead(ctx context.Context, s call.State, m executor.Message, cause *envelope.Error) error {
	return record.Bury(ctx, r.c.JS, letter(s, m, cause, r.c.Clock.Now()))
}

func letter(s call.State, m executor.Message, cause *envelope.Error, now time.Time) record.DeadLetter {
	return record.DeadLetter{
		Cause: cause, State: s, Attempt: m.Entry.Attempt, Deliveries: m.Deliveries, Body: m.Entry.Body, Time: now.UTC(),
	}
}

func (r records) LateResult(ctx context.Context, s call.State, attempt int, said call.Ending) error {
	return record.Append(ctx, r.c.JS, "late."+r.c.NewNonce(), audit.Late(s, attempt, said, r.c.Clock.Now()))
}
