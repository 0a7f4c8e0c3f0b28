// Command toolbus runs a development bus in one process, calls tools, and contains the commands of operators.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/cli/mcpcmd"
	"github.com/seed-018f16cc/toolbus/internal/tool/gen"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

func main() {
	supervisor.SupervisorMain()
	of := cli.Surroundings()
	env := environment{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: of.Environ,
		size:     func() (columns, rows int) { return terminalSize(os.Stdout) },
		terminal: cli.IsTerminal(os.Stdout), watched: cli.IsTerminal(os.Stderr), zone: time.Local,
		url: of.URL, context: of.Context, credentials: of.Credentials, config: of.Config,
		state: os.Getenv("XDG_STATE_HOME"), home: os.Getenv("HOME"),
	}
	cli.Main(func(ctx context.Context) int { return run(ctx, env, os.Args[1:]) })
}

// environment is the environment of the process.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	terminal       bool                       // stdout is a terminal
	size           func() (columns, rows int) // of that terminal
	watched        bool                       // stderr is a terminal
	zone           *time.Location             // time zone for output on a terminal; nil is UTC
	url            string                     // TOOLBUS_URL
	context        string                     // TOOLBUS_CONTEXT
	credentials    string                     // TOOLBUS_CREDENTIALS
	config         string                     // folder of the user's configuration
	state, home    string
}

// common returns the environment for the commands of package cli.
func (e *environment) common() cli.Env {
	return cli.Env{
		Stdout: e.stdout, Stderr: e.stderr, Terminal: e.watched,
		Environ: e.environ, URL: e.url, Context: e.context, Credentials: e.credentials,
		Config: cmp.Or(e.config, filepath.Join(e.home, ".config")),
	}
}

// run executes one command line, and returns the exit code.
func run(ctx context.Context, env environment, args []string) int {
	env.stderr = &shared{w: env.stderr}
	g := newGlobal(&env)
	root := newRoot(g)
	root.SetArgs(args)
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	err := refused(g, cli.ExecuteRoot(ctx, root))
	var exit exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	case errors.Is(err, cli.ErrUsage):
		fmt.Fprintln(env.stderr, "toolbus:", cli.EscapeText(err.Error()))
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		said := strings.ReplaceAll(err.Error(), context.Canceled.Error(), "interrupted")
		fmt.Fprintln(env.stderr, "toolbus:", cli.EscapeText(said))
		return exitInterrupted
	}
	fmt.Fprintln(env.stderr, "toolbus:", cli.EscapeText(err.Error()))
	return 1
}

// shared is a writer for concurrent use, for standard error.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// Exit codes in addition to 0 (success) and 1 (the command itself failed).
const (
	exitUsage       = 2
	exitRetryable   = 10
	exitTerminal    = 11
	exitInvalid     = 12
	exitOpen        = 13 // the call has no outcome yet
	exitTooLate     = 14 // the call had its outcome before it could be cancelled
	exitDiffers     = 15 // the decision differs from the recorded one
	exitNotRepeated = 16 // the recorded decision could not be repeated
	exitInterrupted = 130
)

// exitError ends the command with an exit code, after it has printed everything.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// exitIf returns the [exitError] of a code if so is true.
func exitIf(so bool, code int) error {
	if so {
		return exitError(code)
	}
	return nil
}

func usagef(format string, args ...any) error { return cli.Usagef(format, args...) }

// global holds what all commands share: their environment, connection and output.
type global struct {
	env *environment
	connection
	output
}

func newGlobal(env *environment) *global {
	return &global{
		env: env, connection: connection{env: env, reach: cli.Reach{Env: env.common()}}, output: output{env: env},
	}
}

// unusual returns a tenant for a table, or "" for the default tenant.
func unusual(tenant string) string {
	if tenant == toolbus.DefaultTenant {
		return ""
	}
	return cli.EscapeCell(tenant)
}

func newRoot(g *global) *cobra.Command {
	root := &cobra.Command{
		Use:   "toolbus",
		Short: "Run the tool calls of AI agents: one outcome each, safe to retry, recorded",
		Long: `Toolbus runs the tool calls of AI agents over NATS JetStream. Every call ends in exactly one of success,
retryable_error, terminal_error or invalid_request before its deadline.

Exit codes:
  0    done; of call, result and dead replay: success
  1    failed: no server, no dispatcher, a failed check
  2    wrong command line or input; nothing was sent
  10   retryable_error, also if the bus did not answer ("final": false)
  11   terminal_error
  12   invalid_request
  13   result: the call has no outcome yet
  14   cancel: too late, the call has ended otherwise
  15   policy explain: the decision differs from the recorded one
  16   policy explain: the recorded decision could not be repeated
  130  interrupted; dev, dispatcher, executor, nats, top, calls watch and a followed audit log exit with 0 instead`,
		Example: `  toolbus dev --examples                          # a whole bus in one process, with example tools
  toolbus tools list
  toolbus call text.search --input '{"pattern":"TOOL"}' --stream
  toolbus why <reference that call printed>`,
		SilenceUsage: true, SilenceErrors: true,
		Version: cli.Version(),
	}
	cli.Group(root)
	cli.ArrangeHelp(root)
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		return g.check()
	}
	root.SetFlagErrorFunc(cli.FlagError)
	f := root.PersistentFlags()
	g.given = f.Changed
	g.reach.Flags(f)
	f.BoolVar(&g.json, "json", false, "print JSON instead of text")
	f.StringVar(&g.tenant, "tenant", toolbus.DefaultTenant,
		"tenant to act in; audit and dead show all tenants unless you name one")
	f.StringVar(&g.actor, "actor", toolbus.DefaultActor, "actor to act as; audit shows all actors unless you name one")
	completeFlag(root, "context", g.completeContexts(math.MaxInt))
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run a bus:"},
		&cobra.Group{ID: "use", Title: "Call tools:"},
		&cobra.Group{ID: "operate", Title: "Operate a bus:"},
	)
	root.AddCommand(commands(g)...)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		strict(cmd)
	}
	return root
}

// strict makes wrong arguments of the commands that cobra adds usage errors, too.
func strict(cmd *cobra.Command) {
	switch cmd.Name() {
	case "completion":
		cli.Group(cmd)
		for _, shell := range cmd.Commands() {
			shell.Args = cli.NoArgs
		}
	case "help":
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if about, rest, err := cmd.Root().Find(args); err != nil || about == cmd.Root() && len(rest) > 0 {
				return usagef("unknown command %q: `toolbus --help` lists the commands", strings.Join(args, " "))
			}
			return nil
		}
	}
}

func commands(g *global) []*cobra.Command {
	env := g.env.common()
	return []*cobra.Command{
		demoCmd(g), devCmd(g), subcommand(cli.Dispatcher(env, g.reach.Find)), subcommand(cli.Executor(env, g.reach.Find)),
		natsCmd(g), contextCmd(g), mcpcmd.Gateway(env, g.seat), gen.Command(env),
		callCmd(g), callsCmd(g), resultCmd(g), cancelCmd(g), whyCmd(g), traceCmd(g), toolsCmd(g),
		mcpcmd.Serve(env, g.env.stdin, g.seat),
		auditCmd(g), deadCmd(g), doctorCmd(g), executorsCmd(g), keysCmd(g), credentialsCmd(g), lockCmd(g),
		unlockCmd(g), repairCmd(g),
		policyCmd(g), runsCmd(g), statsCmd(g), topCmd(g), versionCmd(g),
	}
}

// subcommand converts the command of a separate program to a subcommand of toolbus.
func subcommand(cmd *cobra.Command) *cobra.Command {
	cmd.GroupID = "run"
	cmd.Example = strings.Replace(cmd.Example, cmd.Name(), "toolbus "+cmd.Name(), 1)
	return cmd
}
