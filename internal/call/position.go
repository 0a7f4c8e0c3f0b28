package call

import (
	"strconv"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Position is a place in the call log: a sequence number, and the partition that it counts the events of.
type Position struct {
	Partition subjects.Partition `json:"part,omitzero"`
	Seq       uint64             `json:"seq,omitzero"`
}

// EventID names the event at the position in the record and in provenance; it is the same whenever it is told.
func (p Position) EventID() string {
	return string(strconv.AppendUint(append(append(make([]byte, 0, 64), p.Partition.Bucket()...), '.'), p.Seq, 10))
}

// At returns the position of an event of the log by its sequence number.
func (s State) At(seq uint64) Position { return Position{s.Partition, seq} }

// Key returns the key of the log.
func (s State) Key() subjects.Key {
	return subjects.Key{Tool: s.Tool, ID: s.ID, Partition: s.Partition}
}
