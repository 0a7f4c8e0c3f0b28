package rpc

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// NewEndpoint returns the endpoint of an operation that handle answers. It decodes the question, which is as untrusted
// as any other message. Members that this build does not know are those of a newer client, which does without an
// answer to them.
func NewEndpoint[Q, A any](op string, handle func(context.Context, call.Sender, Q) (A, *envelope.Error)) Endpoint {
	return Endpoint{Op: op, Handle: func(ctx context.Context, from call.Sender, body []byte) (any, *envelope.Error) {
		var q Q
		if err := format.Unmarshal(format.Message, body, &q); err != nil {
			says := ""
			if format.IsUnsupported(err) {
				says = "this dispatcher does not read the question"
			}
			return nil, envelope.NewError(envelope.CodeMalformed, says).WithCause(err.Error())
		}
		return handle(ctx, from, q)
	}}
}

// ToAll makes an endpoint one that every dispatcher answers.
func (e Endpoint) ToAll() Endpoint {
	e.All = true
	return e
}

// unharmed answers a question. One that panics is refused, and logged with where: otherwise it would be asked again,
// and take one dispatcher after the other with it.
func (e Endpoint) unharmed(
	ctx context.Context, log *slog.Logger, from call.Sender, body []byte,
) (answer any, refusal *envelope.Error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("panic", "operation", "request "+e.Op, "panic", p, "stack", string(debug.Stack()))
			refusal = envelope.NewError(envelope.CodeInternal, "the dispatcher failed at this question; its log says where")
		}
	}()
	return e.Handle(ctx, from, body)
}
