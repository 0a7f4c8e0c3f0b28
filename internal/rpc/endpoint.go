package rpc

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/operation"
)

// NewEndpoint returns the endpoint of an operation. It decodes the body of a request as a Q and calls handle. It
// refuses a body that it cannot decode. It ignores members that this build does not know, which newer clients may send.
func NewEndpoint[Q, A any](
	op operation.Operation[Q, A], handle func(context.Context, call.Sender, Q) (A, *envelope.Error),
) Endpoint {
	return NewForwarder(op, func(ctx context.Context, from call.Sender, q Q) (any, *envelope.Error) {
		return handle(ctx, from, q)
	})
}

// NewForwarder is [NewEndpoint] for a handler that returns an answer of the operation or a [Forward].
func NewForwarder[Q, A any](
	op operation.Operation[Q, A], handle func(context.Context, call.Sender, Q) (any, *envelope.Error),
) Endpoint {
	e := Endpoint{Op: op.Name, All: op.All}
	e.Handle = func(ctx context.Context, from call.Sender, body []byte) (any, *envelope.Error) {
		var q Q
		if err := format.Unmarshal(format.Message, body, &q); err != nil {
			says := ""
			if format.IsUnsupported(err) {
				says = "this dispatcher does not read the question"
			}
			return nil, envelope.NewError(envelope.CodeMalformed, says).WithCause(err.Error())
		}
		return handle(ctx, from, q)
	}
	return e
}

// unharmed calls e.Handle. If that panics, it logs the stack and refuses the request. Otherwise the client would repeat
// the request, and it would end one dispatcher after the other.
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
