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

// checkpoint is the position up to which a partition of the call log is recorded. It is stored in the metadata of
// AUDIT. The segments of a chain contain it too, but all of them may have expired or been dropped for lack of room. The
// call log may still hold their events, which must not be recorded again. Metadata does not expire, and is lost only
// together with the stream.
type checkpoint struct {
	Through audit.Position `json:"through"`
	Oldest  uint64         `json:"oldest_open,omitzero"` // see Segment.Oldest
}

// keepEvery is the interval of checkpoints. Each one stores the position of the interval before. The server syncs more
// often, so a power cut does not remove the record up to that position.
const keepEvery = 10 * time.Minute

func checkpointOf(part subjects.Partition) string { return "recorded_" + part.Bucket() }

// readCheckpoint returns the checkpoint of a partition. It returns the zero value if AUDIT has dropped no messages: an
// empty chain is then new, or was lost.
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

// keep stores the checkpoint of a partition, unless the stored one is at the same position or later.
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
