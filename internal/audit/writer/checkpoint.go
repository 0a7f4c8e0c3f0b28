package writer

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// checkpoint says up to where a partition of the call log is on record, in the metadata of AUDIT. A chain says so
// itself, but all of its segments may be forgotten, by their age or for want of room, and the call log still hold what
// they were about: that must not come on record again. Metadata has no age, and lives and dies with the stream.
type checkpoint struct {
	Through audit.Position `json:"through"`
	Oldest  uint64         `json:"oldest_open,omitzero"` // see audit.Segment
}

// keepEvery is the rhythm of notes. What is noted is that old already, so that it is no part of the record that a
// server may lose by a power cut: it syncs more often.
const keepEvery = 10 * time.Minute

func checkpointOf(part subjects.Partition) string { return "recorded_" + part.Bucket() }

// readCheckpoint returns the note of a partition; none where nothing has been forgotten, so that an empty chain is a
// new one, or one that was lost.
func readCheckpoint(ctx context.Context, js jetstream.JetStream, part subjects.Partition) (n checkpoint, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	stream, err := js.Stream(ctx, subjects.AuditStream)
	if err != nil {
		return n, fmt.Errorf("audit: %w", err)
	}
	info := stream.CachedInfo()
	text, ok := info.Config.Metadata[checkpointOf(part)]
	if !ok || info.State.FirstSeq <= 1 {
		return n, nil
	}
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return n, fmt.Errorf("audit: the metadata %s of the stream says %q: %w", checkpointOf(part), text, err)
	}
	return n, nil
}

// keep notes how far a partition is on record, unless that or more is noted.
func (n checkpoint) keep(ctx context.Context, js jetstream.JetStream, part subjects.Partition) error {
	ctx, cancel := context.WithTimeout(ctx, ackTime)
	defer cancel()
	stream, err := js.Stream(ctx, subjects.AuditStream)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	cfg := stream.CachedInfo().Config
	var have checkpoint
	if json.Unmarshal([]byte(cfg.Metadata[checkpointOf(part)]), &have) == nil &&
		have.Through.Seq >= n.Through.Seq && !have.Through.Time.Before(n.Through.Time) {
		return nil
	}
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	metadata := map[string]string{checkpointOf(part): string(text)}
	for name, value := range cfg.Metadata {
		metadata[name] = cmp.Or(metadata[name], value)
	}
	cfg.Metadata = metadata
	if _, err := js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}
