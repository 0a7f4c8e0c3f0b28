package archive

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/record"
)

// wanted is what a request for the same thing has in common with another one, whatever its key: the trace of both
// is one, as it is of a dead letter and its replay.
type wanted struct{ tool, arguments, trace string }

func wantedBy(r audit.Record) wanted { return wanted{r.ToolName, r.ArgumentsHash, r.TraceID} }

// AskedAgain returns the newest request on record, by the number of the dead letter, that asked for the same as a
// letter did, after it: with another key, but in its trace. It reads the audit record from the oldest letter on.
func AskedAgain(ctx context.Context, from Archive, letters []record.DeadLetter) (map[uint64]audit.Record, error) {
	again := map[uint64]audit.Record{}
	asked := map[wanted][]record.DeadLetter{}
	var oldest time.Time
	for _, d := range letters {
		r, ok := audit.Project(call.Requested, d.Attempt, d.State, 0, d.Time)
		if !ok || r.ArgumentsHash == "" || r.TraceID == "" {
			continue // of a build that did not say
		}
		asked[wantedBy(r)] = append(asked[wantedBy(r)], d)
		if oldest.IsZero() || d.Time.Before(oldest) {
			oldest = d.Time
		}
	}
	if len(asked) == 0 {
		return again, nil
	}
	for r, err := range Replay(ctx, from, Filter{Since: oldest, Event: audit.ToolRequested}) {
		if err != nil {
			return nil, err
		}
		for _, d := range asked[wantedBy(r)] {
			if r.Ref != d.Ref && r.Timestamp.After(d.Time) && r.Timestamp.After(again[d.Seq].Timestamp) {
				again[d.Seq] = r
			}
		}
	}
	return again, nil
}
