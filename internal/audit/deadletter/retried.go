package deadletter

import (
	"context"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Retry is a later request for the same thing as a dead letter, with its outcome.
type Retry struct {
	Time   time.Time `json:"time"`
	Tenant string    `json:"tenant"`
	Actor  string    `json:"actor"`
	By     string    `json:"by,omitzero"` // "tenant/actor" of the operator who replayed it; "" if the actor sent it
	Ref    string    `json:"ref"`         // of the call; a refused request leaves no log
	CallID string    `json:"call_id"`
	// Status, Code and Effect are zero until the audit record holds the outcome of the call.
	Status envelope.Status `json:"status,omitzero"`
	Code   envelope.Code   `json:"error_code,omitzero"`
	Effect envelope.Effect `json:"effect,omitzero"`
}

// Became returns the error code or the status of the outcome, or "open".
func (r Retry) Became() string {
	switch {
	case r.Code != "":
		return string(r.Code)
	case r.Status != "":
		return string(r.Status)
	}
	return "open"
}

// wanted identifies a request by tool, input and trace. It is equal for the request of a dead letter and its replay.
type wanted struct{ tool, arguments, trace string }

func wantedBy(r audit.Record) wanted { return wanted{r.ToolName, r.ArgumentsHash, r.TraceID} }

// replays collects the retries of dead letters from the audit record.
type replays struct {
	wanted  map[wanted][]Message
	found   map[uint64][]*Retry // by sequence of the dead letter
	refs    map[string]*Retry   // by reference of the call
	calls   map[string]*Retry   // by call id
	numbers map[attempt]uint64  // sequence of the dead letter, by attempt of its call
}

type attempt struct {
	ref string
	n   int
}

// Retries returns the retries of dead letters, oldest first, keyed by the sequence of the dead letter. These are the
// replays by operators, and requests of the actor itself for the same thing in the same trace. It reads the audit
// record from the time of the oldest letter on.
func Retries(ctx context.Context, from reader.Source, letters []Message) (map[uint64][]*Retry, error) {
	r := replays{
		map[wanted][]Message{}, map[uint64][]*Retry{},
		map[string]*Retry{}, map[string]*Retry{}, map[attempt]uint64{},
	}
	var oldest time.Time
	for _, d := range letters {
		r.numbers[attempt{d.Ref, d.Attempt}] = d.Seq
		asked := audit.Project(call.Requested, d.Attempt, d.State, 0, d.Time)
		if len(asked) > 0 && asked[0].TraceID != "" {
			r.wanted[wantedBy(asked[0])] = append(r.wanted[wantedBy(asked[0])], d)
		}
		if oldest.IsZero() || d.Time.Before(oldest) {
			oldest = d.Time
		}
	}
	if len(letters) == 0 {
		return r.found, nil
	}
	for one, err := range reader.Replay(ctx, from, reader.Filter{Since: oldest}) {
		if err != nil {
			return nil, err
		}
		r.see(one)
	}
	return r.found, nil
}

// see processes the next record.
func (r *replays) see(one audit.Record) {
	switch one.Meaning() {
	case audit.DeadReplayed:
		if one.Replay != nil {
			if seq, ok := r.numbers[attempt{one.Replay.Ref, one.Replay.Attempt}]; ok {
				r.add(seq, one).By = one.Replay.By
			}
		}
	case audit.ToolRequested:
		for _, d := range r.wanted[wantedBy(one)] {
			if one.Ref != d.Ref && one.Timestamp.After(d.Time) {
				r.add(d.Seq, one)
			}
		}
	case audit.ToolExecuted, audit.ToolFailed, audit.ToolTimeout, audit.ToolCancelled, audit.ToolDenied,
		audit.ToolReplayed:
		if known := r.calls[one.CallID]; known != nil {
			known.Status, known.Code, known.Effect = one.Status, one.Code, one.Effect
		}
	}
}

// add returns the retry of the dead letter seq that a record describes. An operator repeats a request that was not
// answered, so one call can have several records, each with a call id of its own.
func (r *replays) add(seq uint64, one audit.Record) *Retry {
	known := r.refs[one.Ref]
	if known == nil {
		known = &Retry{Time: one.Timestamp, Tenant: one.Tenant, Actor: one.Actor, Ref: one.Ref}
		r.refs[one.Ref] = known
	}
	known.CallID, r.calls[one.CallID] = one.CallID, known
	if !slices.Contains(r.found[seq], known) {
		r.found[seq] = append(r.found[seq], known)
	}
	return known
}
