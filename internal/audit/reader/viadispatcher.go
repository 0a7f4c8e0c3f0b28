package reader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// ownRights reports whether the token of a permits reading the streams directly, or is not known.
func ownRights(a operation.Asker) bool {
	in, ok := a.(*rpc.Inbox)
	if !ok || in.Token == nil {
		return true
	}
	p, err := auth.Inspect(in.Token())
	return err != nil || p.Role == auth.Auditor && p.Has(auth.ScopeAudit)
}

// Open returns the first of [Streams], [DirectGets] and [ViaDispatcher] that the permissions of the connection allow.
func Open(ctx context.Context, js jetstream.JetStream, asker operation.Asker) Source {
	switch {
	case !ownRights(asker): // the server would log each denied attempt
	case !bus.IsPermissionDenied(bus.CheckLevel(ctx, js)):
		return Streams(js)
	case !slices.ContainsFunc(ofRecord(), func(stream string) bool { return !readable(ctx, js, asker, stream) }):
		return DirectGets(js, asker)
	}
	return ViaDispatcher(asker)
}

// ofRecord returns the streams of the audit record.
func ofRecord() []string {
	return []string{subjects.AuditStream, subjects.SurplusStream, subjects.DeniedStream}
}

// readable reports whether direct gets may read a stream. An older build permits not all of them, and the configuration
// of a server that was written by one does not export them.
func readable(ctx context.Context, js jetstream.JetStream, asker operation.Asker, stream string) bool {
	if !bus.MayPublish(ctx, js.Conn(), subjects.DirectGet(stream)) {
		return false
	}
	_, err := DirectGets(js, asker).State(ctx, stream)
	return err == nil
}

// OpenAs is [Open] for an operator or auditor of a tenant, with a token or with nil. The connection of js must be one
// of that actor. Call done at the end.
func OpenAs(ctx context.Context, js jetstream.JetStream, tenant, actor string, token func() string) (
	from Source, done func(), err error) {
	in, err := rpc.OpenInbox(js.Conn(), tenant, actor, token)
	if err != nil {
		return nil, nil, err
	}
	return Open(ctx, js, in), func() { _ = in.Close() }, nil // fails only if the connection is closed
}

// ViaDispatcher returns a Source that reads the streams through dispatchers. If the deployment has tokens, dispatchers
// answer operators and auditors. An auditor without the scope for all tenants gets only records of its own tenant.
func ViaDispatcher(asker operation.Asker) Source { return viaDispatcher{asker} }

type viaDispatcher struct{ asker operation.Asker }

func (t viaDispatcher) ask(ctx context.Context, q envelope.StreamReadRequest) (
	page envelope.StreamReadResponse, err error,
) {
	page, refusal, err := operation.Stored.Ask(ctx, t.asker, q)
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

// pollPause is the pause between two requests at the end of a stream. The audit record lags by about the same time.
const pollPause = 250 * time.Millisecond

func (t viaDispatcher) Messages(ctx context.Context, stream string, from StartAt,
	quiet time.Duration) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		if err := t.read(ctx, stream, from, quiet, yield); err != nil {
			yield(Message{}, fmt.Errorf("read %s: %w", stream, err))
		}
	}
}

// read implements Messages. It returns the error that ends them.
func (t viaDispatcher) read(ctx context.Context, stream string, from StartAt, quiet time.Duration,
	yield func(Message, error) bool) error {
	follow := quiet == 0
	q := envelope.StreamReadRequest{Stream: stream, After: from.After, Since: from.Since, Tenant: from.Tenant}
	var part []byte // beginning of a message that does not fit into one answer
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

// patient repeats a request until a dispatcher answers, for quiet at most, or until ctx ends if quiet is 0.
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

// answerTime is the timeout of one request.
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

// denied is a refusal of a dispatcher as a Go error.
type denied struct{ reason *envelope.Error }

// Error implements error.
func (d denied) Error() string { return d.reason.String() }

// Fault implements [envelope.Fault].
func (d denied) Fault() *envelope.Error { return d.reason }
