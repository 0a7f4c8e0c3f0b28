package toolbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// Version is the version of Toolbus, which dispatchers report in NATS service discovery.
const Version = "0.3.0"

// DefaultSlots is the default number of calls that an executor runs at once.
const DefaultSlots = app.DefaultSlots

// ExecutorOptions configures an executor. The zero value uses all defaults.
type ExecutorOptions struct {
	Pool  string        // the executor runs the tools of this pool; default "default"
	Slots int           // largest number of concurrent runs; default [DefaultSlots]
	Drain time.Duration // time that running calls get after the context of Run ends, before they are killed; default 10 s
	Host  string        // name of this machine, which `toolbus executors list` shows; default none
	// Ready, if not nil, is called when the executor takes calls, with its name in logs, records and [Client.Why].
	Ready func(instance string)

	// Environ and Supervisor are for tools of folders, which are programs.
	Environ    []string // NAME=value pairs that manifests may pass to programs, such as os.Environ(); default none
	Supervisor string   // path of toolbus-supervisor; default: next to this program, else this program itself
}

// Executor runs tools. Make one with [Conn.Executor]. On Linux its process becomes undumpable: tools that are programs
// run as the same user, but cannot attach to the executor or read its environment, memory and open files. The kernel
// writes no core dump of the process.
type Executor struct {
	conn    *Conn
	options app.ExecutorOptions
	ready   func(instance string)
}

// SupervisorMain must be the first call in main, and in TestMain, of a program whose [Executor] runs tools from
// folders, unless a toolbus-supervisor binary lies next to the program. For each run, the executor starts the program
// again as supervisor of the tool's process tree. In that process SupervisorMain supervises the tool and does not
// return; in any other it does nothing.
func SupervisorMain() { supervisor.SupervisorMain() }

// Executor returns an executor for tools. It returns an error if a tool could not be added to the set, or if a tool
// cannot run on this host.
func (c *Conn) Executor(tools *Toolset, o ExecutorOptions) (*Executor, error) {
	registry, err := tools.registry()
	if err != nil {
		return nil, err
	}
	if o.Pool != "" && !tool.ValidPool(o.Pool) {
		return nil, fmt.Errorf("%q is no pool of a tool: lower-case letters, digits and -, at most 32 bytes", o.Pool)
	}
	adapters, err := app.Adapters(tools.folders, app.AdapterOptions{
		Environ: o.Environ, Supervisor: o.Supervisor, Version: Version, Logger: c.process.Logger,
	})
	if err != nil {
		return nil, err
	}
	if len(tools.typed) > 0 {
		adapters[native.Transport] = tools.native()
	}
	options := app.ExecutorOptions{Tools: registry, Adapters: adapters, Version: Version, Pool: o.Pool, Slots: o.Slots,
		Drain: o.Drain, Host: o.Host}
	tools.use(registry, options.Fits)
	return &Executor{c, options, o.Ready}, nil
}

// Run takes calls until ctx ends or the connection is closed. It then waits for the running calls for at most Drain,
// kills the rest, which other executors may then take, and returns nil. It returns [ErrClosed] if the connection was
// closed before, and otherwise the error because of which it could not go on. It may be called again after it has
// returned.
func (e *Executor) Run(ctx context.Context) error {
	return app.Run(ctx, e.conn.link, e.conn.process, func(ctx context.Context, c *app.Conn) error {
		o := e.options
		o.Ready = told(e.ready, c)
		return app.RunExecutor(ctx, c, o)
	})
}

// DispatcherOptions configures a dispatcher. The zero value uses all defaults.
type DispatcherOptions struct {
	// InsecureNoAuth lets a dispatcher without secrets (Options.SecretsDir) serve. It authenticates nobody: any client of
	// the NATS server may call any tool as any actor. [Conn.Dispatcher] refuses it together with secrets.
	InsecureNoAuth bool
	PoolAbsence    time.Duration // calls of a pool without a live executor for this time are refused; default 10 s
	// OpenPerActor and OpenPerTenant limit the open calls of one actor with its sub-actors, and of one tenant, counted
	// over all dispatchers; default 100,000 and 200,000. Further calls are refused with R-CAP-OPEN. Calls that several
	// dispatchers admit at the same moment can exceed the limit. OverflowAfter is the number of open calls of an actor,
	// default 8, above which further calls wait behind those of actors with fewer.
	OpenPerActor, OpenPerTenant, OverflowAfter int
	// DefaultRole is the role of tokens without roles, and of callers that name none on a bus without tokens; default
	// "agent". DefaultLane is the lane of calls that name none, and whose token is not bound to one, unless exactly one
	// other lane allows the tool to the role; default "default".
	// They must be the same for all dispatchers of a bus. A name has at most 128 letters, digits and the characters
	// . _ : / - and begins with a letter or a digit.
	DefaultRole, DefaultLane string
	// AllowAll puts in force a policy that allows every call of the tools in the default lane, before the dispatcher
	// serves, unless an operator has pushed a policy. It is for development and tests: on a bus without a policy, a
	// dispatcher refuses every call. See docs/policy.md.
	AllowAll bool
	// RefuseEdited refuses calls of a tool whose files differ from what was loaded, until [Toolset.AddFolder] has loaded
	// them again. A key keeps the build of its first call, so a call should not be admitted for files that are gone. It
	// is for a dispatcher that reads the same files as all executors, as in `toolbus dev`.
	RefuseEdited bool
	// StrictAudit makes executors start a call only after its request is in the audit record. All executors must be of a
	// build that supports it.
	StrictAudit bool
	// Ready, if not nil, is called when the dispatcher serves, with its name in logs and records.
	Ready func(instance string)
}

// Dispatcher admits calls, enforces their deadlines, and writes the audit record. Make one with [Conn.Dispatcher]. A
// bus needs at least one. Each dispatcher must know the tools of all executors. On Linux its process becomes
// undumpable: processes of the same user cannot attach to it or read its memory, and the kernel writes no core dump.
type Dispatcher struct {
	conn    *Conn
	options app.DispatcherOptions
	ready   func(instance string)
}

// Missing returns what is missing for the dispatcher to admit calls, or "" if it admits them. It does not block.
func (d *Dispatcher) Missing() string { return d.options.Admission.Missing() }

// Dispatcher returns a dispatcher for tools. It returns an error if a tool could not be added to the set, or if the
// connection has no secrets and o does not set InsecureNoAuth.
func (c *Conn) Dispatcher(tools *Toolset, o DispatcherOptions) (*Dispatcher, error) {
	registry, err := tools.registry()
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(c.authenticates(o), o.checkDefaults()); err != nil {
		return nil, err
	}
	options := app.DispatcherOptions{
		Tools: registry, OpenPerActor: o.OpenPerActor, OpenPerTenant: o.OpenPerTenant,
		OverflowAfter: o.OverflowAfter, PoolAbsence: o.PoolAbsence, Strict: o.StrictAudit,
		DefaultRole: o.DefaultRole, DefaultLane: o.DefaultLane, AllowAll: o.AllowAll, Version: Version,
		Intact: o.RefuseEdited, Admission: &app.Admission{},
	}
	tools.use(registry, options.Fits())
	return &Dispatcher{c, options, o.Ready}, nil
}

// authenticates returns an error unless either the connection has secrets or o allows a dispatcher without them.
func (c *Conn) authenticates(o DispatcherOptions) error {
	switch secrets := c.process.Keys != nil; {
	case !secrets && !o.InsecureNoAuth:
		return errors.New("a dispatcher without secrets authenticates nobody: make them with `toolbus keys init DIR` and " +
			"set Options.SecretsDir to DIR/keys, or set DispatcherOptions.InsecureNoAuth")
	case secrets && o.InsecureNoAuth:
		return errors.New("DispatcherOptions.InsecureNoAuth contradicts Options.SecretsDir: leave one of them out")
	}
	return nil
}

// checkDefaults returns an error if a default cannot be the name of a role or a lane.
func (o DispatcherOptions) checkDefaults() error {
	for field, name := range map[string]string{"DefaultRole": o.DefaultRole, "DefaultLane": o.DefaultLane} {
		if name != "" && !auth.ValidRoleID(name) {
			return fmt.Errorf("DispatcherOptions.%s is %.40q: use at most 128 letters, digits and . _ : / - and begin "+
				"with a letter or a digit", field, name)
		}
	}
	return nil
}

// Run serves until ctx ends or the connection is closed. It then answers the requests that it has already taken (5 s at
// most), completes the audit record (2 s at most), and returns nil. It returns [ErrClosed] if the connection was closed
// before, and otherwise the error because of which it could not go on. It may be called again after it has returned.
func (d *Dispatcher) Run(ctx context.Context) error {
	return app.Run(ctx, d.conn.link, d.conn.process, func(ctx context.Context, c *app.Conn) error {
		o := d.options
		o.Ready = told(d.ready, c)
		return app.RunDispatcher(ctx, c, o)
	})
}

// told returns a function that calls ready with the instance of c, or nil if ready is nil.
func told(ready func(instance string), c *app.Conn) func() {
	if ready == nil {
		return nil
	}
	return func() { ready(c.Instance) }
}

// Serve runs a dispatcher and an executor in one process until ctx ends or one of them fails. It calls ready, if not
// nil, when both serve. It stops the executor first, because its last outcomes still need a dispatcher. It returns when
// both have ended, with the first error of their Run methods.
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
