package reader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Asker asks dispatchers; rpc.Inbox is one.
type Asker interface {
	Ask(ctx context.Context, op string, q, answer any) (*envelope.Error, error)
}

// ownRights is what the token of an [Asker] says that it may read by itself; true where none says anything.
func ownRights(a Asker) bool {
	in, ok := a.(*rpc.Inbox)
	if !ok || in.Token == nil {
		return true
	}
	p, err := auth.Inspect(in.Token())
	return err != nil || p.Role == auth.Auditor && p.Has(auth.ScopeAudit)
}

// Open returns the streams where the connection of js may read them, or copies of them, and else reads through
// dispatchers.
func Open(ctx context.Context, js jetstream.JetStream, asker Asker) Source {
	switch {
	case !ownRights(asker): // the server would log each try
	case !bus.IsPermissionDenied(bus.CheckLevel(ctx, js)):
		return Streams(js)
	case bus.MayPublish(ctx, js.Conn(), subjects.DirectGet(subjects.AuditStream)):
		from := DirectGets(js, asker)
		if _, err := from.State(ctx, subjects.AuditStream); err == nil {
			return from
		}
	}
	return ViaDispatcher(asker)
}

// ViaDispatcher reads the streams through dispatchers, which answer operators, and auditors of what is of their
// tenants.
func ViaDispatcher(asker Asker) Source { return viaDispatcher{asker} }

type viaDispatcher struct{ asker Asker }

func (t viaDispatcher) ask(ctx context.Context, q envelope.StreamReadRequest) (
	page envelope.StreamReadResponse, err error,
) {
	refusal, err := t.asker.Ask(ctx, subjects.OpStored, q, &page)
	if refusal != nil {
		return page, denied{refusal}
	}
	return page, err
}

func (t viaDispatcher) State(ctx context.Context, stream string) (State, error) {
	page, err := t.ask(ctx, envelope.StreamReadRequest{Stream: stream, Only: envelope.OnlyState})
	if err != nil {
		return State{}, fmt.Errorf("read %s: %w", stream, err)
	}
	return State{page.First, page.Last, page.Held}, nil
}

// pollPause is how long nothing is asked for once nothing more is there: the record itself is late by as much.
const pollPause = 250 * time.Millisecond

func (t viaDispatcher) Messages(ctx context.Context, stream string, from StartAt,
	quiet time.Duration) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		if err := t.read(ctx, stream, from, quiet, yield); err != nil {
			yield(Message{}, fmt.Errorf("read %s: %w", stream, err))
		}
	}
}

// read is Messages, and returns the error that ends them.
func (t viaDispatcher) read(ctx context.Context, stream string, from StartAt, quiet time.Duration,
	yield func(Message, error) bool) error {
	follow := quiet == 0
	q := envelope.StreamReadRequest{Stream: stream, After: from.After, Since: from.Since, Tenant: from.Tenant}
	var part []byte // of a message that does not fit into an answer
	for {
		page, err := t.patient(ctx, q, quiet)
		if follow && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, m := range page.Messages {
			if part = append(part, m.Data...); len(part) < m.Size {
				q.Offset = len(part)
				continue
			}
			if !yield(Message{m.Seq, m.Time, part}, nil) {
				return nil
			}
			part, q.After, q.Offset = nil, m.Seq, 0
		}
		switch {
		case page.More || part != nil:
		case !follow:
			return nil
		case !timer.Sleep(ctx, pollPause):
			return nil
		}
	}
}

// patient asks until somebody answers, for so long.
func (t viaDispatcher) patient(ctx context.Context, q envelope.StreamReadRequest,
	quiet time.Duration) (page envelope.StreamReadResponse,
	err error) {
	if quiet > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, quiet)
		defer cancel()
	}
	err = timer.Backoff{Pause: pollPause, Try: answerTime}.Until(ctx, func(ctx context.Context) (bool, error) {
		page, err = t.ask(ctx, q)
		away := errors.Is(err, context.DeadlineExceeded) || quiet == 0 && errors.Is(err, rpc.ErrNoDispatcher)
		return !away, err
	})
	return page, err
}

// answerTime is how long one dispatcher is waited for before another is asked.
const answerTime = 5 * time.Second

func (t viaDispatcher) WaitRecorded(ctx context.Context) error {
	for {
		page, err := t.patient(ctx, envelope.StreamReadRequest{Only: envelope.OnlyRecorded}, bus.ReadTimeout)
		if err != nil || page.Recorded {
			return err
		}
	}
}

func (t viaDispatcher) Now(ctx context.Context) (time.Time, error) {
	sent := time.Now()
	page, err := t.ask(ctx, envelope.StreamReadRequest{Only: envelope.OnlyState, Stream: subjects.AuditStream})
	return page.Now.Add(time.Since(sent) / 2), err
}

// denied is the error for what a dispatcher refused to read.
type denied struct{ reason *envelope.Error }

// Error implements error.
func (d denied) Error() string { return d.reason.String() }

// Fault implements [envelope.Fault].
func (d denied) Fault() *envelope.Error { return d.reason }
