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

// Retry is a later request for what a dead letter asked for, and what became of it.
type Retry struct {
	Time   time.Time `json:"time"`
	Tenant string    `json:"tenant"`
	Actor  string    `json:"actor"`
	By     string    `json:"by,omitzero"` // tenant and actor of the operator, with a slash between; "" if the actor asked
	Ref    string    `json:"ref"`         // of the call, which has no log if the request was refused
	CallID string    `json:"call_id"`
	// Status, Code and Effect are the zero value while the call has no outcome on record.
	Status envelope.Status `json:"status,omitzero"`
	Code   envelope.Code   `json:"error_code,omitzero"`
	Effect envelope.Effect `json:"effect,omitzero"`
}

// Became returns the outcome of the replay in one word.
func (r Retry) Became() string {
	switch {
	case r.Code != "":
		return string(r.Code)
	case r.Status != "":
		return string(r.Status)
	}
	return "open"
}

// wanted is equal for two requests for the same thing in the same trace, such as the request of a dead letter and its
// replay.
type wanted struct{ tool, arguments, trace string }

func wantedBy(r audit.Record) wanted { return wanted{r.ToolName, r.ArgumentsHash, r.TraceID} }

// replays are the replays of some letters, as they are found in the record.
type replays struct {
	wanted  map[wanted][]Message
	found   map[uint64][]*Retry // by letter
	refs    map[string]*Retry   // by reference
	calls   map[string]*Retry   // by call id
	numbers map[attempt]uint64  // numbers
}

type attempt struct {
	ref string
	n   int
}

// Retries returns the replays of dead letters, oldest first, by the number of the letter: the calls that dispatchers
// made for operators, and requests of the actor itself for the same in the same trace. It reads the audit record from
// the oldest letter on.
func Retries(ctx context.Context, from reader.Source, letters []Message) (map[uint64][]*Retry, error) {
	r := replays{
		map[wanted][]Message{}, map[uint64][]*Retry{},
		map[string]*Retry{}, map[string]*Retry{}, map[attempt]uint64{},
	}
	var oldest time.Time
	for _, d := range letters {
		r.numbers[attempt{d.Ref, d.Attempt}] = d.Seq
		if asked, ok := audit.Project(call.Requested, d.Attempt, d.State, 0, d.Time); ok && asked.TraceID != "" {
			r.wanted[wantedBy(asked)] = append(r.wanted[wantedBy(asked)], d)
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

// see takes the next record.
func (r *replays) see(one audit.Record) {
	switch one.Event {
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
	case audit.ToolExecuted, audit.ToolFailed, audit.ToolTimeout, audit.ToolCancelled, audit.ToolDenied:
		if known := r.calls[one.CallID]; known != nil {
			known.Status, known.Code, known.Effect = one.Status, one.Code, one.Effect
		}
	}
}

// add returns the replay of a letter that a record is about. An operator whose question was not answered asks it again,
// so the same call may have several records, with a call id each.
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
