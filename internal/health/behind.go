package health

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/kv"
)

// Behind returns a failed check if the call log lacks events that the list of kept calls has, and otherwise none.
// Dispatchers then answer nobody until an operator decides. Dispatchers that answer have checked that themselves.
func Behind(ctx context.Context, js jetstream.JetStream) []envelope.Check {
	log, err := kv.OpenLog(ctx, js, kv.LogOptions{})
	if err != nil {
		return nil // the check of the stream reports it
	}
	if _, err := log.OpenKept(ctx, slog.New(slog.DiscardHandler), true); err != nil {
		return []envelope.Check{envelope.Failed("call log", "it was deleted, or is an old copy, so dispatchers admit "+
			"nothing and answer nobody: "+err.Error(),
			"see docs/operations.md, damaged streams, also for the program nats; dispatchers then go on by themselves")}
	}
	return nil
}
