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

// DefaultGrace is how long a tool has after SIGTERM unless Options say otherwise.
const DefaultGrace = 200 * time.Millisecond

// lastMoment is what a program has to end by itself after its output has ended, which most often is
// because it does: what ended it is to be told from our own signal.
const lastMoment = 100 * time.Millisecond

// Options configure an Adapter. The zero value is usable.
type Options struct {
	// Environ holds variables as NAME=value, from which a manifest's capabilities.env picks.
	Environ []string
	// Grace is the time between SIGTERM and SIGKILL when a context ends; DefaultGrace if 0.
	Grace time.Duration
	// Supervisor is the supervisor's program. If empty, supervisor.Find finds one.
	Supervisor string
}

// Adapter runs process tools. It is safe for concurrent use.
type Adapter struct {
	environ    map[string]string
	grace      time.Duration
	supervisor string
}

var _ tool.Adapter = (*Adapter)(nil)

// New returns an adapter after it has seen a supervisor work on this host.
func New(opts Options) (*Adapter, error) {
	program, err := supervisor.Find(opts.Supervisor)
	if err != nil {
		return nil, err
	}
	grace := cmp.Or(opts.Grace, DefaultGrace)
	return &Adapter{environ: parseEnviron(opts.Environ), grace: grace, supervisor: program}, nil
}

// Validate says whether the manifest's program can be run on this host.
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

// Lookup asks the tool whether the effect of the invocation's key is committed. See tool.Adapter.
func (a *Adapter) Lookup(ctx context.Context, m *tool.Manifest, inv tool.Invocation) (tool.Result, bool, error) {
	if !m.Capability.Lookup {
		return tool.Result{}, false, tool.ErrNoLookup
	}
	said, err := a.run(ctx, m, protocol.OpLookup, inv, discard{})
	return said.result, err == nil && said.kind == protocol.LineOutput, err
}

// discard is the sink of a lookup: nobody waits for its chunks.
type discard struct{}

func (discard) Emit(ctx context.Context, _ envelope.ChunkKind, _ jsontext.Value) error {
	return ctx.Err()
}
