package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process/protocol"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// DefaultGrace is the default of Options.Grace.
const DefaultGrace = 200 * time.Millisecond

// lastMoment is the time that a program has to exit after it closed its output without a terminal line. Most programs
// close their output by exiting or crashing; a signal from the executor would hide how they ended.
const lastMoment = 100 * time.Millisecond

// Options configure an Adapter. The zero value is usable.
type Options struct {
	// Environ holds the executor's variables as NAME=value. A tool gets those that its manifest names in capabilities.env.
	Environ []string
	// Grace is the time between SIGTERM and SIGKILL when a run is ended; default 200 ms.
	Grace time.Duration
	// Supervisor is the path of the supervisor program. If it is "", supervisor.Find finds one.
	Supervisor string
}

// Adapter runs process tools. It is safe for concurrent use.
type Adapter struct {
	environ    map[string]string
	grace      time.Duration
	supervisor string
}

var _ tool.Adapter = (*Adapter)(nil)

// New returns an adapter. It first runs a supervisor, and returns an error if supervisors do not work on this host.
func New(opts Options) (*Adapter, error) {
	program, err := supervisor.Find(opts.Supervisor)
	if err != nil {
		return nil, err
	}
	grace := cmp.Or(opts.Grace, DefaultGrace)
	return &Adapter{environ: parseEnviron(opts.Environ), grace: grace, supervisor: program}, nil
}

// Validate returns an error if the tool's program cannot run on this host.
func (a *Adapter) Validate(m *tool.Manifest) error {
	cfg, err := a.config(m)
	if err != nil {
		return err
	}
	return supervisor.Startable(cfg.Path)
}

// Execute runs one call of the tool. See tool.Adapter.
func (a *Adapter) Execute(
	ctx context.Context, m *tool.Manifest, inv tool.Invocation, sink tool.Sink,
) (tool.Result, error) {
	said, err := a.run(ctx, m, protocol.OpExecute, inv, sink)
	return said.result, err
}

// Lookup asks the tool whether the effect of inv.IdempotencyKey is committed. See tool.Adapter.
func (a *Adapter) Lookup(ctx context.Context, m *tool.Manifest, inv tool.Invocation) (tool.Result, bool, error) {
	if !m.Capability.Lookup {
		return tool.Result{}, false, tool.ErrNoLookup
	}
	said, err := a.run(ctx, m, protocol.OpLookup, inv, discard{})
	return said.result, err == nil && said.kind == protocol.LineOutput, err
}

// discard is the sink of a lookup, which drops chunks.
type discard struct{}

func (discard) Emit(ctx context.Context, _ envelope.ChunkKind, _ jsontext.Value) error {
	return ctx.Err()
}

// run starts the tool for one operation and reads its output. It returns when no process of the run is left.
func (a *Adapter) run(
	ctx context.Context, m *tool.Manifest, op protocol.Op, inv tool.Invocation, sink tool.Sink,
) (statement, error) {
	last := m.Limits.Longest() // ends a run whose context does not
	grace := a.grace
	if due, ok := ctx.Deadline(); ok {
		var early time.Duration
		early, grace = a.early(time.Until(due))
		last = min(last, time.Until(due)-early)
		inv.Deadline = inv.Deadline.Add(-early)
	}
	ctx, cancel := context.WithTimeout(ctx, last)
	defer cancel()
	if ctx.Err() != nil {
		return statement{}, tool.Stopped(ctx, envelope.EffectNone, "")
	}
	p, err := a.start(ctx, m, op, inv, grace)
	if err != nil {
		return statement{}, &tool.StartError{Err: err}
	}
	release := context.AfterFunc(ctx, func() { p.End(supervisor.Terminate) })
	defer release()

	r := newReader(p.Stdout, op, m.Limits.OutputBytes)
	r.reports = inv.Report
	violation := r.readAll(ctx, sink)
	switch {
	case violation != nil && ctx.Err() == nil:
		p.End(supervisor.Kill)
	case violation != nil: // the run is being ended and has its grace
		violation = nil
	case r.said.kind == "" && !p.EndsWithin(lastMoment):
		p.End(supervisor.Terminate) // it closed its output, so it cannot answer any more
	}
	report, err := p.Wait()
	e := ending{
		said: r.said, violation: violation, cut: r.cut, lost: r.lost, report: report, failed: err, stderr: p.Stderr(),
	}
	if err := e.judge(ctx); err != nil {
		return statement{}, err
	}
	// The peak is the memory of the largest process. It is at least the memory of the supervisor, which the kernel counts
	// until the tool's program is loaded.
	e.said.result.Metrics = envelope.Metrics{CPUMS: report.CPUMS, MemoryPeakMB: (report.PeakRSS + 1<<20 - 1) >> 20}
	return e.said, nil
}

// reportTime is the time after the grace in which an executor can still decide the call.
const reportTime = 100 * time.Millisecond

// early returns how long before its deadline the program of a run gets SIGTERM, so that the call can end with what the
// program says after it, and the grace from then to SIGKILL. A short run keeps seven eighths of its time, and has a
// shorter grace: at its deadline a dispatcher decides, which does not know whether the program ran.
func (a *Adapter) early(left time.Duration) (early, grace time.Duration) {
	early = max(0, min(a.grace+reportTime, left/8))
	return early, early - min(reportTime, early/3)
}

func (a *Adapter) start(
	ctx context.Context, m *tool.Manifest, op protocol.Op, inv tool.Invocation, grace time.Duration,
) (*supervisor.Run, error) {
	cfg, err := a.config(m)
	if err != nil {
		return nil, err
	}
	if inv.Traceparent != "" {
		cfg.Env = append(slices.DeleteFunc(cfg.Env, isTraceparent), traceparentVariable+inv.Traceparent)
	}
	input, err := readRequest(op, inv)
	if err != nil {
		return nil, err
	}
	if cfg.Program, err = m.OpenProgram(); err != nil {
		return nil, err
	}
	defer cfg.Program.Close() // does nothing if it is nil
	end, _ := ctx.Deadline()  // run has set one; the supervisor enforces it also while this process is frozen
	cfg.GraceMS = grace.Milliseconds()
	cfg.LimitMS = max(time.Until(end), time.Millisecond).Milliseconds()
	return supervisor.Start(a.supervisor, cfg, input, m.Limits.StderrBytes)
}

// ending is everything that is known of a run that is over.
type ending struct {
	said      statement
	violation error  // error in the output, found before the context ended
	cut       string // how the output ended in the middle of a line, or ""
	lost      bool   // a chunk was not stored, so an output is not the whole result
	report    supervisor.Report
	failed    error // of the supervisor
	stderr    string
}

// judge returns the error of the run, or nil if its terminal line counts.
func (e *ending) judge(ctx context.Context) error {
	clean := e.failed == nil && e.report.ExitCode == 0
	switch {
	case errors.Is(e.failed, supervisor.ErrSurvivors):
		return &tool.SurvivorError{Waited: supervisor.Patience}
	case e.report.Failure != "":
		return &tool.StartError{Err: errors.New(e.report.Failure)}
	case e.violation != nil:
		return withStderr(e.violation, e.stderr)
	case clean && !e.lost && (e.said.kind == protocol.LineOutput || e.said.kind == protocol.LineAbsent):
		return nil
	case (e.report.Stopped || e.lost) && ctx.Err() != nil:
		return e.stopped(tool.Stopped(ctx, e.said.effect(), e.stderr))
	case e.report.Expired: // and this process has not seen the deadline pass
		return e.stopped(&tool.StoppedError{Cause: context.DeadlineExceeded, Effect: e.said.effect(), Stderr: e.stderr})
	case e.failed != nil:
		return e.crash(e.failed.Error())
	case e.said.fault != nil:
		return e.said.fault
	case clean, e.report.Ours: // or the executor ended it because it had closed its output
		says := cmp.Or(e.cut, "standard output ended without an output or error line")
		return &tool.ProtocolError{Reason: says, Fix: fix(""), Stderr: e.stderr}
	case e.report.Signal != "":
		return e.crash("signal: " + e.report.Signal)
	}
	return e.crash(fmt.Sprintf("exit status %d", e.report.ExitCode))
}

// stopped adds to the error of a run that was ended how the program took that.
func (e *ending) stopped(err *tool.StoppedError) *tool.StoppedError {
	err.Answered = e.said.kind != "" && e.report.Ours
	err.Killed = e.report.Ours && e.report.Signal == os.Kill.String()
	return err
}

// crash returns the error of a run that ended badly. An answer before that does not count.
func (e *ending) crash(how string) *tool.CrashError {
	return &tool.CrashError{
		How: how, Message: protocol.Fault(e.stderr), Answered: e.said.kind != "" && e.said.fault == nil,
		Last: protocol.LastLine(e.stderr), Stderr: e.stderr,
	}
}

func withStderr(err error, stderr string) error {
	switch err := err.(type) {
	case *tool.ProtocolError:
		err.Stderr = stderr
	case *tool.LimitError:
		err.Stderr = stderr
	}
	return err
}

// Variables that every tool gets, unless its manifest sets them.
const (
	defaultPath = "/usr/local/bin:/usr/bin:/bin"
	defaultLang = "C.UTF-8"
)

// config returns the supervisor's configuration for a tool, or an error if the tool cannot run on this host.
func (a *Adapter) config(m *tool.Manifest) (supervisor.Config, error) {
	endpoint, ours := m.Endpoint.(Endpoint)
	switch {
	case !ours || m.Transport != Transport:
		return supervisor.Config{}, fmt.Errorf("%s is no process tool but %q", m.ToolID, m.Transport)
	case len(endpoint.Command) == 0:
		return supervisor.Config{}, fmt.Errorf("%s has no command", m.ToolID)
	case !filepath.IsAbs(m.Dir):
		return supervisor.Config{}, fmt.Errorf("%s has no folder to run in", m.ToolID)
	}
	env := a.environment(m, endpoint)
	program, err := supervisor.Locate(endpoint.Command[0], m.Dir, env["PATH"])
	if err != nil {
		return supervisor.Config{}, err
	}
	return supervisor.Config{Path: program, Args: endpoint.Command, Env: formatEnviron(env), Dir: m.Dir}, nil
}

// environment returns the variables of the tool: the defaults, those that the manifest passes through, and those that
// it sets.
func (a *Adapter) environment(m *tool.Manifest, endpoint Endpoint) map[string]string {
	env := map[string]string{"PATH": defaultPath, "LANG": defaultLang}
	for _, name := range m.Capability.Env {
		if value, ok := a.environ[name]; ok && !tool.OwnVariable(name) {
			env[name] = value
		}
	}
	maps.Copy(env, endpoint.Env)
	maps.DeleteFunc(env, func(name, _ string) bool { return tool.LoaderVariable(name) })
	return env
}

// traceparentVariable is the beginning of the variable that OpenTelemetry defines for the parent of a process's spans.
const traceparentVariable = "TRACEPARENT="

func isTraceparent(entry string) bool { return strings.HasPrefix(entry, traceparentVariable) }

func parseEnviron(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}

func formatEnviron(env map[string]string) (entries []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		entries = append(entries, name+"="+env[name])
	}
	return entries
}
