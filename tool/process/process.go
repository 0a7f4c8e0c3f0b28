package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/tool"
	"github.com/seed-018f16cc/toolbus/tool/process/protocol"
	"github.com/seed-018f16cc/toolbus/tool/process/supervisor"
)

// DefaultGrace is how long a tool has after SIGTERM unless Options say otherwise.
const DefaultGrace = 200 * time.Millisecond

const (
	// lastMoment is what a program has to end by itself after its output has ended, which most often is
	// because it does: what ended it is to be told from our own signal.
	lastMoment = 100 * time.Millisecond
	// patience is how long, beyond the grace, a killed run may take to go. The kernel kills
	// at once; only a process within a system call that cannot be interrupted stays.
	patience = 5 * time.Second
	// startPatience is how long a supervisor may take to take its orders.
	startPatience = 10 * time.Second
)

// errSurvivors means that a run has not gone within patience.
var errSurvivors = errors.New("processes survive")

// Options configure an Adapter. The zero value is usable.
type Options struct {
	// Environ holds variables as NAME=value, from which a manifest's capabilities.env picks.
	Environ []string
	// Grace is the time between SIGTERM and SIGKILL when a context ends; DefaultGrace if 0.
	Grace time.Duration
	// Supervisor is the supervisor's program. If empty, it is toolbus-supervisor beside the
	// running executable, or else the running executable itself, which must then call
	// RunIfSupervisor first in main.
	Supervisor string
}

// Adapter runs process tools. It is safe for concurrent use.
type Adapter struct {
	environ    map[string]string
	grace      time.Duration
	supervisor string
}

var _ tool.Adapter = (*Adapter)(nil)

// RunIfSupervisor turns this process into the supervisor of one run and does not return, if it
// was started as one. Call it first in main, and in TestMain, of every binary that uses New.
func RunIfSupervisor() { supervisor.RunIfSupervisor() }

// New returns an adapter after it has seen a supervisor work on this host.
func New(opts Options) (*Adapter, error) {
	program, err := findSupervisor(opts.Supervisor)
	if err != nil {
		return nil, err
	}
	a := &Adapter{environ: parseEnviron(opts.Environ), grace: opts.Grace, supervisor: program}
	if a.grace == 0 {
		a.grace = DefaultGrace
	}
	if err := probe(program, startPatience); err != nil {
		return nil, err
	}
	return a, nil
}

// findSupervisor returns the program that supervises: the small binary starts faster, and has
// a path of its own that a security profile can name.
func findSupervisor(configured string) (string, error) {
	if configured != "" {
		return filepath.Abs(configured)
	}
	if os.Args[0] == supervisor.Name {
		return "", errors.New("this process was started as a supervisor: call process.RunIfSupervisor first in main")
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), supervisor.Name)
	if executable(beside) == nil {
		return beside, nil
	}
	return "/proc/self/exe", nil // the running binary, even when its file was replaced
}

// Validate says whether the manifest's program can be run on this host.
func (a *Adapter) Validate(m *tool.Manifest) error {
	_, err := a.config(m)
	return err
}

// Execute runs one call of the tool. See tool.Adapter.
func (a *Adapter) Execute(ctx context.Context, m *tool.Manifest, inv tool.Invocation, sink tool.Sink) (tool.Result, error) {
	said, err := a.run(ctx, m, protocol.OpExecute, inv, sink)
	return said.result, err
}

// Lookup asks the tool whether the effect of the invocation's key is committed. See tool.Adapter.
func (a *Adapter) Lookup(ctx context.Context, m *tool.Manifest, inv tool.Invocation) (tool.Result, bool, error) {
	if !m.Capability.Lookup {
		return tool.Result{}, false, tool.ErrNoLookup
	}
	said, err := a.run(ctx, m, protocol.OpLookup, inv, discard{})
	return said.result, err == nil && said.kind == protocol.LineOutput, err
}

// ClassifyError maps an error of Execute to the taxonomy.
func (a *Adapter) ClassifyError(m *tool.Manifest, err error) *envelope.Error {
	return tool.Classify(m, err)
}

// discard is the sink of a lookup: nobody waits for its chunks.
type discard struct{}

func (discard) Emit(ctx context.Context, _ envelope.ChunkKind, _ jsontext.Value) error {
	return ctx.Err()
}
