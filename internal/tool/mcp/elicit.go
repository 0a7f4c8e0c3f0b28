package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// asker asks the caller of one call for the server, one question at a time.
type asker struct {
	caller *tool.Caller // nil if the caller cannot be asked

	mu       sync.Mutex
	asking   bool
	left     time.Duration // that the call may still wait for its caller
	asked    int
	answered int
}

// errUnanswered means that the caller does not answer a question.
var errUnanswered = errors.New("the caller does not answer")

// begin begins a question. It returns the time that the question may take, or 0 if it cannot be asked.
func (a *asker) begin() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asking || a.left <= 0 {
		return 0
	}
	a.asking = true
	a.asked++
	return a.left
}

// done ends a question.
func (a *asker) done(took time.Duration, answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking, a.left = false, a.left-took
	if answered {
		a.answered++
	}
}

// warn adds a warning that the server has asked. It does not contain the texts.
func (a *asker) warn(warnings []string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked == 0 || len(warnings) == envelope.MaxWarnings {
		return warnings
	}
	return append(warnings, fmt.Sprintf(envelope.MetaAsked+"%d; answers: %d", a.asked, a.answered))
}

// elicit sends a question to the caller as a chunk, and returns the answer. ctx is that of the call.
func (r *progressQueue) elicit(ctx context.Context, params jsontext.Value) (jsontext.Value, error) {
	if len(params) > envelope.MaxInputQuestion || len(ijson.Check(params)) > 0 {
		return nil, errUnanswered
	}
	most := r.asks.begin()
	if most == 0 {
		return nil, errUnanswered
	}
	began, answer := time.Now(), make(chan jsontext.Value, 1)
	id, end := r.asks.caller.Ask(func(result jsontext.Value) {
		select {
		case answer <- result:
		default: // only the first answer counts
		}
	})
	defer end()
	var result jsontext.Value
	if r.tell(envelope.OpenQuestion{ID: id, Params: params}) {
		result = r.await(ctx, answer, most)
		r.tell(envelope.OpenQuestion{ID: id}) // so that nobody is asked any more
	}
	r.asks.done(time.Since(began), result != nil)
	if result == nil {
		return nil, errUnanswered
	}
	return result, nil
}

// await returns the answer, or nil if it does not come in time.
func (r *progressQueue) await(
	ctx context.Context, answer <-chan jsontext.Value, most time.Duration,
) jsontext.Value {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case result := <-answer:
		return result
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// tell queues a chunk about a question.
func (r *progressQueue) tell(q envelope.OpenQuestion) bool {
	data, err := q.Chunk()
	if err == nil {
		r.put(chunk{envelope.ChunkProgress, data, false})
	}
	return err == nil
}
