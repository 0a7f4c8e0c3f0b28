package app

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/question"
)

// unharmed returns the endpoints so that a question which panics one is refused, and logged with where: otherwise
// it would be asked again, and take one dispatcher after the other with it.
func unharmed(log *slog.Logger, endpoints []bus.Endpoint) []bus.Endpoint {
	for i, e := range endpoints {
		handle := e.Handle
		endpoints[i].Handle = func(ctx context.Context, from question.Sender, body []byte) (answer any, refusal *envelope.Error) {
			defer func() {
				if p := recover(); p != nil {
					log.Error("panic", "in", "a question: "+e.Op, "panic", p, "stack", string(debug.Stack()))
					refusal = envelope.NewError(envelope.CodeInternal, "the dispatcher failed at this question; its log says where")
				}
			}()
			return handle(ctx, from, body)
		}
	}
	return endpoints
}
