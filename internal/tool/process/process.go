package process

import (
	"cmp"
	"context"
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
	_, err := a.config(m)
	return err
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
