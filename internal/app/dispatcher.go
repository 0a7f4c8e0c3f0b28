package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/callout"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/deadline"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/policy/lockstore"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// DispatcherOptions configures a dispatcher process.
type DispatcherOptions struct {
	Tools    *tool.Set
	AuditLag time.Duration // see dispatcher.Options
	Strict   bool          // see dispatcher.Options
	Intact   bool          // see dispatcher.Options
	// PoolAbsence is PoolAbsence of dispatcher.Options; values below the lease are raised to it.
	PoolAbsence time.Duration
	// OpenPerActor, OpenPerTenant and OverflowAfter are the options of the same names in dispatcher.Options.
	OpenPerActor, OpenPerTenant, OverflowAfter int
	// DefaultRole and DefaultLane are the options of the same names in dispatcher.Options.
	DefaultRole, DefaultLane string
	// AllowAll puts in force a policy that allows every call of Tools, before the dispatcher serves, unless an operator
	// has pushed one. The policy is that of `toolbus policy init`, with the default role and lane.
	AllowAll bool

	Version string // of the product; shown by NATS service discovery
	Ready   func() // called once, when the dispatcher serves for the first time; may be nil
	// Admission says whether the dispatcher admits calls; may be nil.
	Admission *Admission
	// Connected is called for each connection that the dispatcher opens beside that of its Conn, with the function that
	// returns its statistics; may be nil.
	Connected func(stats func() nats.Statistics)
}

func (o *DispatcherOptions) connected(f *requestConn) {
	if o.Connected != nil {
		o.Connected(f.stats)
	}
}

// Admission says whether a dispatcher admits calls. The zero value says that it has not started to serve. Its methods
// are safe for concurrent use.
type Admission struct{ missing atomic.Pointer[func() string] }

// Missing returns what is missing for calls to be admitted, or "" if they are. It does not block.
func (a *Admission) Missing() string {
	if missing := a.missing.Load(); missing != nil {
		return (*missing)()
	}
	return "the start of the dispatcher"
}

// admission makes Admission say what missing returns.
func (o *DispatcherOptions) admission(missing func() string) {
	if o.Admission != nil {
		o.Admission.missing.Store(&missing)
	}
}

// admitsNothing makes Admission say why the dispatcher does not serve at present.
func (o *DispatcherOptions) admitsNothing(behind bool) {
	why := "the start of the dispatcher after a failure"
	if behind {
		why = "the decision of an operator about a call log that lacks events"
	}
	o.admission(func() string { return why })
}

// dispatcherProcess is a dispatcher with what outlives a restart.
type dispatcherProcess struct {
	*node
	options DispatcherOptions
	state   *stateConn
	copies  *replica.Copies
	tokens  *tokenstore.Store // nil without keys
	locks   *lockstore.Store
	peers   *callout.Peers // nil without keys
	tally   tally
	sizes   streamSizes
	served  bool // it has served at least once
}

// RunDispatcher serves until ctx ends. If the server has lost writes that were not synced, the dispatcher discards its
// state and starts again, as often as needed. Once it has served or started again, it also starts again after any other
// failure: the server may go away before the dispatcher follows the log. If ctx ends meanwhile, RunDispatcher returns
// nil. With Fsync, it waits until an operator decides about a call log that lacks events.
func RunDispatcher(ctx context.Context, c *Conn, o DispatcherOptions) (err error) {
	if err := supervisor.Undumpable(); err != nil {
		return err
	}
	stops := stops{log: c.Logger}
	defer func() { err = stops.stop(err) }()
	d, err := openDispatcher(ctx, c, o, &stops)
	if err != nil {
		return err
	}
	for again, behind := false, false; ; again = true {
		err := d.serve(ctx, again)
		d.options.admitsNothing(errors.Is(err, errLogBehind))
		if (format.Newer(err) || d.served && format.IsUnsupported(err)) && ctx.Err() == nil {
			d.waitAsStandby(ctx, err)
			continue
		}
		said := behind
		behind = errors.Is(err, errLogBehind)
		lost := errors.Is(err, kv.ErrStreamRolledBack) || behind
		if err == nil || !lost && !again && !d.served {
			return err
		}
		if ctx.Err() != nil {
			c.Logger.Error("stopped while the server was in trouble", "err", err)
			return nil
		}
		switch {
		case !behind:
			c.Logger.Error("starting over", "err", err)
		case !said:
			c.Logger.Error("no call is admitted until an operator decides", "err", err)
		}
		if lost {
			d.Log.Forget()
		}
		if !lost || behind {
			timer.Sleep(ctx, restartDelay)
		}
	}
}

// errLogBehind means that a call log lacks events. No crash does that if the server syncs each write.
var errLogBehind = errors.New("the server has lost events that it had synced")

// openDispatcher starts the parts that outlive a restart.
func openDispatcher(ctx context.Context, c *Conn, o DispatcherOptions, s *stops) (*dispatcherProcess, error) {
	n, err := openLocal(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := warnOfRetention(ctx, c, o.Tools); err != nil {
		return nil, err
	}
	d := &dispatcherProcess{node: n, options: o}
	if d.state, err = openStateConn(c); err != nil {
		return nil, err
	}
	s.push("state connection", d.state.close)
	if o.Connected != nil {
		o.Connected(d.state.nc.Stats)
	}
	if d.copies, err = replica.OpenCopies(ctx, d.state.js, c.Logger); err != nil {
		return nil, err
	}
	var stop func()
	if d.tokens, stop, err = openAuthority(ctx, d); err != nil {
		return nil, err
	}
	s.push("keys and revocations", stop)
	if d.locks, stop, err = openLocks(ctx, d); err != nil {
		return nil, err
	}
	s.push("locks", stop)
	if d.peers, stop, err = openCallout(d); err != nil {
		return nil, err
	}
	s.push("auth callout", stop)
	return d, nil
}

// verifier returns the verifier of tokens, or nil without keys.
func (d *dispatcherProcess) verifier() *auth.Verifier {
	if d.tokens == nil {
		return nil
	}
	return d.tokens.Verifier()
}

// absence returns PoolAbsence, or the lease if that is longer, because a live executor may be silent for a lease.
func (d *dispatcherProcess) absence() time.Duration {
	return max(cmp.Or(d.options.PoolAbsence, deadline.DefaultPoolAbsence), d.Lease)
}

// waitAsStandby waits until the event that this build cannot read has expired, or for kv.StandBy if err names no event.
// Meanwhile dispatchers of another build do the work.
func (d *dispatcherProcess) waitAsStandby(ctx context.Context, err error) {
	d.notices.Log(d.Logger, "standing by for dispatchers of another build: nothing is admitted or decided here", err)
	if u, ok := errors.AsType[*kv.Unreadable](err); ok {
		u.Gone(ctx, d.JS)
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

// keyed is the prefix of the instance names of dispatchers that have the deployment's keys. The auth callout accepts no
// executor with such a name.
const keyed = "d-"

// passable reports whether the follower may skip an unreadable event of this instance, so that the event stops only its
// own call. That holds for executors: they can write any content. Unreadable events of dispatchers are never skipped,
// because they may come from a newer build. Dispatchers are upgraded before executors, so no correct executor writes
// events that its dispatchers cannot read.
func passable(instance string) bool { return !strings.HasPrefix(instance, keyed) }
