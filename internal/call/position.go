package call

import (
	"strconv"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Position is the place of an event in the call log: its partition, and its sequence in the stream of the partition.
type Position struct {
	Partition subjects.Partition `json:"part,omitzero"`
	Seq       uint64             `json:"seq,omitzero"`
}

// EventID returns the id of the event at the position, for the audit record and for provenance.audit_event_id.
func (p Position) EventID() string {
	return string(strconv.AppendUint(append(append(make([]byte, 0, 64), p.Partition.Bucket()...), '.'), p.Seq, 10))
}

// At returns the position of an event of the log by its sequence number.
func (s State) At(seq uint64) Position { return Position{s.Partition, seq} }

// Key returns the key of the log.
func (s State) Key() subjects.Key {
	return subjects.Key{Tool: s.Tool, ID: s.ID, Partition: s.Partition}
}
