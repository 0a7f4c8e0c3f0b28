package app

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

type actKey struct{}

// describe makes r the record of the act that ctx belongs to. It is written with the intent or with a refusal.
func describe(ctx context.Context, r audit.Record) {
	if of, ok := ctx.Value(actKey{}).(*audit.Record); ok {
		r.Act = of.Act
		*of = r
	}
}

// amend changes the record of the act that ctx belongs to, after its intent was recorded: that of its result.
func amend(ctx context.Context, change func(*audit.Record)) {
	if of, ok := ctx.Value(actKey{}).(*audit.Record); ok {
		change(of)
	}
}

// note writes r to the audit record. If ctx belongs to an act, r is its intent.
func (d *dispatcherParts) note(ctx context.Context, r audit.Record) error {
	of, acts := ctx.Value(actKey{}).(*audit.Record)
	if !acts {
		return d.journal.Note(ctx, r)
	}
	r.Act, r.EventID = of.Act, audit.GatePrefix+d.NewNonce()
	err := d.journal.Note(ctx, r)
	if err == nil {
		*of = r
	}
	return err
}

// resultTime is how long an answer waits for the record of the result.
const resultTime = 2 * time.Second

// acting returns an endpoint whose handler may change something. It records the result after the intent that the
// handler has noted, and each refusal that no repetition of the request may change.
func (d *dispatcherParts) acting(e rpc.Endpoint) rpc.Endpoint {
	answer := e.Handle
	e.Handle = func(ctx context.Context, from call.Sender, body []byte) (any, *envelope.Error) {
		of := &audit.Record{Act: &audit.Act{Op: e.Op, State: audit.ActIntended}}
		said, refusal := answer(context.WithValue(ctx, actKey{}, of), from, body)
		intended := of.EventID != ""
		if refusal == nil && !intended || refusal != nil && !intended && refusal.Code.Retryable() {
			return said, refusal
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resultTime)
		defer cancel()
		if refusal != nil {
			return nil, d.dispatcher.RecordRefusedAct(ctx, from, of, refusal)
		}
		if err := d.journal.Note(ctx, of.Done(d.Clock.Now())); err != nil { // the act stands
			d.Logger.Warn("the result of an operation is not on record", "op", e.Op, "intent", of.EventID, "err", err)
		}
		return said, nil
	}
	return e
}
