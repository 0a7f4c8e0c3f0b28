package app

import (
	"context"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
)

// recordRestored records the entries that this process has restored from their copies, until ctx ends.
func (d *dispatcherParts) recordRestored(ctx context.Context) {
	d.copies.RecordRestored(ctx, func(ctx context.Context, r replica.Restored) error {
		e := audit.RestoredEntry{Stream: r.Stream, Entry: r.Entry, Reason: r.Reason}
		return d.journal.Note(ctx, audit.EntryRestored(client.DefaultTenant, d.Instance, r.ID, e, d.Clock.Now()))
	})
}
