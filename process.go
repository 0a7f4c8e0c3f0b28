package toolbus

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// Version is the version of Toolbus: services report it to discovery.
const Version = "0.2.0-dev"

// DefaultSlots is how many calls an executor runs at once that is not told otherwise.
const DefaultSlots = app.DefaultSlots

// ExecutorOptions tune an executor. The zero value is good.
type ExecutorOptions struct {
	Pool  string        // whose tools it runs; default "default"
	Slots int           // calls that run at once; default [DefaultSlots]
	Drain time.Duration // how long calls in hand may go on when it is told to stop; default 10 s
	// Ready is called once it takes calls, with the name by which logs, records and Why know it; may be nil.
	Ready func(instance string)

	// Of tools of folders, which are programs.
	Environ    []string // NAME=value, from which their manifests pick, such as os.Environ(); default none
	Supervisor string   // the program that ends theirs; default toolbus-supervisor beside this one, else this one
}

// Executor runs tools. Its process becomes undumpable: tools that are programs run as the same user, and cannot attach
// to it or read its environment, memory and open files. The kernel writes no core dump of the process.
type Executor struct {
	conn    *Conn
	options app.ExecutorOptions
	ready   func(instance string)
}

// SupervisorMain must be called first in main, and in TestMain, of a program that has an [Executor] with tools of
// folders, unless there is a toolbus-supervisor beside it: such a program starts itself once for each run of a tool,
// to end all of its processes. Then SupervisorMain does that and does not return; otherwise it does nothing.
func SupervisorMain() { supervisor.SupervisorMain() }

// Executor returns an executor of tools. The error says what cannot run on this host, or what was wrong with the tools.
func (c *Conn) Executor(tools *Toolset, o ExecutorOptions) (*Executor, error) {
	registry, err := tools.registry()
	if err != nil {
		return nil, err
	}
	if o.Pool != "" && !tool.ValidPool(o.Pool) {
		return nil, fmt.Errorf("%q is no pool of a tool: lower-case letters, digits and -, at most 32 bytes", o.Pool)
	}
	adapters, err := app.Adapters(tools.folders, app.AdapterOptions{
		Environ: o.Environ, Supervisor: o.Supervisor, Version: Version, Logger: c.link.Options().Logger,
	})
	if err != nil {
		return nil, err
	}
	if len(tools.typed) > 0 {
		adapters[native.Transport] = tools.native()
	}
	options := app.ExecutorOptions{Tools: registry, Adapters: adapters, Pool: o.Pool, Slots: o.Slots, Drain: o.Drain}
	return &Executor{c, options, o.Ready}, nil
}

// Run takes calls until ctx ends or the connection is closed, and returns when those in hand have ended: they may go
// on for as long as Drain says, and are then killed and left to other executors. It returns nil if it was told to
// stop, and otherwise why it could not go on. It may be run again.
func (e *Executor) Run(ctx context.Context) error {
	return e.conn.link.Run(ctx, func(ctx context.Context, c *app.Conn) error {
		o := e.options
		o.Ready = told(e.ready, c)
		return app.RunExecutor(ctx, c, o)
	})
}

// DispatcherOptions tune a dispatcher. The zero value is good.
type DispatcherOptions struct {
	PoolAbsence time.Duration // how long a pool may be without an executor before its calls are refused; default 10 s
	// OpenPerActor and OpenPerTenant are how many calls may be open of one, whichever dispatcher has admitted them;
	// those that others admit at the same moment may be as many more. Further ones are refused with R-CAP-OPEN. Default
	// 100,000 and 200,000. OverflowAfter is how many of an actor run before those of actors that have more open;
	// default 8.
	OpenPerActor, OpenPerTenant, OverflowAfter int
	// StrictAudit lets a call start only once its request is on record. All executors have to be of a build that knows
	// it.
	StrictAudit bool
	// OlderBuilds lets the dispatcher work with executors of the build f16d274, which do not know where dispatchers
	// answer them: it answers at the reply subject of each question, which may be any subject of the executors'
	// account. It also lets connections read payloads, and chunks, from the streams, as such executors and clients do.
	// Set it while these, or connections that such dispatchers have let in, are there.
	OlderBuilds bool
	// Ready is called once it serves, with the name by which logs and records know it; may be nil.
	Ready func(instance string)
}

// Dispatcher admits calls, keeps their deadlines, and puts them on record. A bus needs one at least, which must know
// the tools of all executors.
type Dispatcher struct {
	conn    *Conn
	options app.DispatcherOptions
	ready   func(instance string)
}

// Dispatcher returns a dispatcher for tools. The error says what was wrong with them.
func (c *Conn) Dispatcher(tools *Toolset, o DispatcherOptions) (*Dispatcher, error) {
	registry, err := tools.registry()
	if err != nil {
		return nil, err
	}
	options := app.DispatcherOptions{
		Tools: registry, OpenPerActor: o.OpenPerActor, OpenPerTenant: o.OpenPerTenant,
		OverflowAfter: o.OverflowAfter, PoolAbsence: o.PoolAbsence, Strict: o.StrictAudit, OlderBuilds: o.OlderBuilds,
		Version: Version,
	}
	return &Dispatcher{c, options, o.Ready}, nil
}

// Run serves until ctx ends or the connection is closed, and returns when the requests in hand are answered, and what
// there is is on record, or after some seconds. It returns nil if it was told to stop, and otherwise why it could not
// go on. It may be run again.
func (d *Dispatcher) Run(ctx context.Context) error {
	return d.conn.link.Run(ctx, func(ctx context.Context, c *app.Conn) error {
		o := d.options
		o.Ready = told(d.ready, c)
		return app.RunDispatcher(ctx, c, o)
	})
}

// told returns what tells ready which instance it is.
func told(ready func(instance string), c *app.Conn) func() {
	if ready == nil {
		return nil
	}
	return func() { ready(c.Instance) }
}

// Serve runs a dispatcher and an executor until ctx ends or one of them fails, as a process does that is both, and
// calls ready, which may be nil, once both serve. It returns as their Run does, when both have ended: the dispatcher
// last, since the executor may have something to put on record to the end.
func Serve(ctx context.Context, d *Dispatcher, e *Executor, ready func()) error {
	parts, ctx := errgroup.WithContext(ctx)
	one, other := *d, *e
	var serving atomic.Int32
	both := func(first func(string)) func(string) {
		return func(instance string) {
			if first != nil {
				first(instance)
			}
			if serving.Add(1) == 2 && ready != nil {
				ready()
			}
		}
	}
	one.ready, other.ready = both(d.ready), both(e.ready)
	held, stop := context.WithCancel(context.WithoutCancel(ctx))
	parts.Go(func() error { return one.Run(held) })
	parts.Go(func() error {
		defer stop()
		return other.Run(ctx)
	})
	return parts.Wait()
}
