package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Dispatcher returns the command that runs a dispatcher on the bus that access returns.
func Dispatcher(env Env, access func() (Access, error)) *cobra.Command {
	n, a := &Node{}, &Admission{}
	cmd := &cobra.Command{
		Use: "dispatcher", Short: "Run a dispatcher: it admits calls and decides their outcomes", Args: NoArgs,
		Long: `Runs a dispatcher. It admits calls, ends them at their deadlines, answers requests about them and writes
the audit records. Run two or more for one bus.

After SIGTERM or SIGINT it takes no more requests, answers those that it has taken (5 s at most) and exits with 0.
Exit codes: 0 stopped by a signal; 1 failed, for example because it reached no server; 2 wrong command line.`,
		Example: "  dispatcher --secrets-dir /etc/toolbus/keys --server nats://bus:4222 --tools /etc/toolbus/tools " +
			"--sync always",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Stopped(cmd.Context(), dispatch(cmd.Context(), env, n, a, access))
		},
	}
	n.Flags(cmd)
	n.ServerFlags(cmd)
	n.KeysFlags(cmd)
	n.RecordFlags(cmd)
	a.Flags(cmd)
	return cmd
}

func dispatch(ctx context.Context, env Env, n *Node, a *Admission, access func() (Access, error)) error {
	if err := cmp.Or(n.Check(), a.Check(n), n.CheckKeys()); err != nil {
		return err
	}
	env, end := env.Unblocked()
	defer end()
	part := func(c *toolbus.Conn, t *toolbus.Toolset, url string, ready func(instance string) bool) (runner, error) {
		o := a.Options()
		o.InsecureNoAuth = n.insecure
		o.Ready = func(instance string) {
			if n.insecure {
				fmt.Fprintln(env.Stderr,
					"warning: with --insecure-no-auth any client of the server may call any tool as any actor")
			}
			if ready(instance) {
				fmt.Fprintf(env.Stdout, "dispatcher %s is serving %d tools at %s\n", instance, t.Len(), bus.Redacted(url))
			}
		}
		return c.Dispatcher(t, o)
	}
	return n.serve(ctx, env, "toolbus-dispatcher", access, part)
}

// executorService is the connection name of an executor without a token.
const executorService = "toolbus-executor"

// runner is a dispatcher or executor.
type runner interface {
	Run(ctx context.Context) error
}

// serve connects to the bus, and runs the dispatcher or executor that makePart returns.
func (n *Node) serve(
	ctx context.Context, env Env, service string, access func() (Access, error),
	makePart func(c *toolbus.Conn, t *toolbus.Toolset, url string, ready func(instance string) bool) (runner, error),
) error {
	tools, err := n.Toolset()
	if err != nil {
		return err
	}
	boundGarbage(ctx, env.Environ)
	if err := n.Unready(); err != nil {
		return err
	}
	o, signals, err := n.Options(ctx, service, env)
	if err != nil {
		return err
	}
	defer signals.End(ctx)
	a, err := access()
	if err != nil {
		return err
	}
	if n.keys != "" {
		a.Credentials = "" // the secrets authenticate the connection
	}
	if err := a.Into(&o); err != nil {
		return err
	}
	conn, err := toolbus.Connect(ctx, a.Server, o)
	if err != nil {
		return err
	}
	defer conn.Close()
	signals.While(conn.NATS().IsConnected)
	manager := systemdOf(env.Environ)
	at := func() (string, error) {
		signals.Serving()
		if from := signals.URL(); from != "" {
			fmt.Fprintf(env.Stdout, "metrics: %s/metrics\n", from)
		}
		return a.Server, manager.ready()
	}
	defer manager.live(ctx)()
	return n.WhileReady(ctx, env.Stderr, at, func(ctx context.Context, ready func() bool) error {
		started := make(chan string, 1)
		part, err := makePart(conn, tools, a.Server, func(instance string) bool {
			select {
			case started <- instance:
			default: // it serves again
			}
			o.Logger.Info("started", "service", service, "version", toolbus.Version, "instance", instance)
			return ready()
		})
		if err != nil {
			return err
		}
		err = signals.run(ctx, part)
		logEnd(o.Logger.With("service", service, "version", toolbus.Version), started, Stopped(ctx, err))
		return err
	})
}

// logEnd logs the end of a process, with its instance if it has started to serve.
func logEnd(log *slog.Logger, started <-chan string, err error) {
	select {
	case instance := <-started:
		log = log.With("instance", instance)
	default:
	}
	if err != nil {
		log.Error("failed", "err", err)
		return
	}
	log.Info("stopped")
}

// Toolset returns the tools of the folder, with the defaults of the environment.
func (n *Node) Toolset() (*toolbus.Toolset, error) {
	tools := toolbus.NewToolset()
	err := thrifty(func() error { return tools.AddFolder(n.Tools) })
	if problems, ok := errors.AsType[tool.Problems](err); ok {
		err = problems.Below(n.Tools)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: name the folder of the tools with --tools DIR", err)
	}
	if err != nil {
		return nil, err
	}
	if n.Default == "" {
		return tools, nil
	}
	return tools, tools.SetDefaults(n.Default, n.Env)
}

// WhileReady calls run, which must call ready once it serves the bus. Then ready calls at, which lets clients connect
// if they cannot yet and returns the URL of the bus, and writes that URL to the ready file. If at or writing fails, the
// context of run ends, and ready returns false: otherwise a process that waits for the file would wait forever.
func (n *Node) WhileReady(
	ctx context.Context, stderr io.Writer, at func() (url string, err error),
	run func(ctx context.Context, ready func() bool) error,
) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer Patience(ctx, stderr)()
	var failed error
	err := run(ctx, func() bool {
		var url string
		if url, failed = at(); failed == nil {
			failed = WriteReady(n.readyFile, url)
		}
		if failed != nil {
			stop()
		}
		return failed == nil
	})
	return cmp.Or(failed, err)
}

// Executor returns the command that runs an executor on the bus that access returns.
func Executor(env Env, access func() (Access, error)) *cobra.Command {
	n, p := &Node{}, &Pool{}
	cmd := &cobra.Command{
		Use: "executor", Short: "Run an executor: it runs the tools of a pool", Args: NoArgs,
		Long: `Runs an executor. It takes admitted calls of one pool and runs their tools, at most --slots at the same
time. Run as many for one bus as the calls need.

After SIGTERM or SIGINT it takes no more calls. Running calls have 10 s to end; then it kills them, and another
executor takes over those that may run again. Exit codes: 0 stopped by a signal; 1 failed, for example because it
reached no server; 2 wrong command line.`,
		Example: "  executor --server nats://bus:4222 --tools /etc/toolbus/tools --sync always --pool default --slots 32",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Stopped(cmd.Context(), execute(cmd.Context(), env, n, p, access))
		},
	}
	n.Flags(cmd)
	n.ServerFlags(cmd)
	p.Flags(cmd)
	return cmd
}

func execute(ctx context.Context, env Env, n *Node, p *Pool, access func() (Access, error)) error {
	if err := cmp.Or(n.Check(), p.Check()); err != nil {
		return err
	}
	env, end := env.Unblocked()
	defer end()
	part := func(c *toolbus.Conn, t *toolbus.Toolset, url string, ready func(instance string) bool) (runner, error) {
		o := p.Options(env.Environ)
		o.Ready = func(instance string) {
			if ready(instance) {
				fmt.Fprintf(env.Stdout, "executor %s works for pool %s at %s\n", instance, p.Name, bus.Redacted(url))
			}
		}
		return c.Executor(t, o)
	}
	reach := func() (Access, error) {
		a, err := access()
		if err != nil {
			return a, err
		}
		return a.As(ctx, p.worker())
	}
	for {
		err := n.serve(ctx, env, executorService, reach, part)
		refused, ok := errors.AsType[*tokensource.RenewalError](err)
		if !ok || !refused.Reissued || ctx.Err() != nil {
			return err
		}
		// the server allows an executor only instance names of its credential
		env.Logger(n.Level()).Warn("starting again with the credential that is in the file by now: the one before is refused")
	}
}

// Stopped returns err, or nil if err only says that ctx has ended: stopping a process before it serves is not a
// failure.
func Stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

// ErrUsage marks an invalid command line.
var ErrUsage = errors.New("usage")

// Usagef returns an [ErrUsage] with a message.
func Usagef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUsage, fmt.Sprintf(format, args...))
}

// Exit codes of the programs dispatcher, executor and toolbus-lab.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// Run runs a command as a separate program, with flags for the bus, and returns its exit code.
func Run(
	ctx context.Context, env Env, command func(Env, func() (Access, error)) *cobra.Command, args []string,
) int {
	reach := &Reach{Env: env}
	cmd := command(env, reach.Find)
	reach.Flags(cmd.Flags())
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		return reach.Check(cmd.Flags().Changed)
	}
	return Execute(ctx, env, cmd, args)
}

// Execute runs a command line of a program, prints its error, and returns the exit code.
func Execute(ctx context.Context, env Env, cmd *cobra.Command, args []string) int {
	ArrangeHelp(cmd)
	cmd.SilenceUsage, cmd.SilenceErrors, cmd.Version = true, true, Version()
	cmd.SetFlagErrorFunc(FlagError)
	cmd.SetArgs(args)
	cmd.SetOut(env.Stdout)
	cmd.SetErr(env.Stderr)
	err := ExecuteRoot(ctx, cmd)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintf(env.Stderr, "%s: interrupted\n", cmd.Name())
		return exitInterrupted
	}
	fmt.Fprintf(env.Stderr, "%s: %s\n", cmd.Name(), EscapeText(err.Error()))
	if errors.Is(err, ErrUsage) {
		return exitUsage
	}
	return exitFailed
}

// NoArgs is a [cobra.PositionalArgs] that refuses arguments.
func NoArgs(cmd *cobra.Command, args []string) error { return Args(0, 0, "no arguments")(cmd, args) }

// Args returns a check of the number of arguments. The check returns an [ErrUsage].
func Args(least, most int, want string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return Usagef("expected %s, got %d", want, len(args))
		}
		return nil
	}
}
