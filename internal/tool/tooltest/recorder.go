package tooltest

import (
	"context"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Emitted is one chunk that a sink got.
type Emitted struct {
	Kind envelope.ChunkKind
	Data string
}

// Recorder is a sink that records chunks. The zero value is usable. OnEmit, if not nil, is called with every chunk, and
// its error is the error of Emit.
type Recorder struct {
	OnEmit func(Emitted) error

	mu      sync.Mutex
	emitted []Emitted
}

var _ tool.Sink = (*Recorder)(nil)

// Emit implements tool.Sink.
func (r *Recorder) Emit(_ context.Context, kind envelope.ChunkKind, data jsontext.Value) error {
	e := Emitted{Kind: kind, Data: string(data)}
	r.mu.Lock()
	r.emitted = append(r.emitted, e)
	r.mu.Unlock()
	if r.OnEmit != nil {
		return r.OnEmit(e)
	}
	return nil
}

// All returns the chunks so far.
func (r *Recorder) All() []Emitted {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.emitted)
}
