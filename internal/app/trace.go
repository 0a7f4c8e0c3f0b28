package app

import (
	"context"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// Tracer observes calls; package telemetry makes one. The zero value observes nothing.
type Tracer struct {
	Admit  func(ctx context.Context, ask *call.Ask, req *envelope.Request) (traceparent string, done func(admitted bool))
	Refuse func(ctx context.Context, tool string, req *envelope.Request, e *envelope.Error)
	Run    func(ctx context.Context, s call.State, attempt int, req *envelope.Request) (context.Context, func(*envelope.Response))
}
