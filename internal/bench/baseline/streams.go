package baseline

import (
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// FloorStreams are the streams to which a call writes.
var FloorStreams = [...]string{logStream, recordStream}

const (
	logStream    = "FLOOR_LOG"
	recordStream = "FLOOR_AUDIT"
)

// topology returns the configuration of the two streams. Except for names and metadata it is that of Toolbus, so that
// the server does the same work per message. The log holds at most bytes bytes; 0 is the default of Toolbus.
func topology(bytes int64) (events, records jetstream.StreamConfig) {
	for _, c := range bus.Streams(bus.TopologyOptions{Partitions: 1, CallsBytes: bytes}) {
		c.Description, c.Metadata = "", nil // it is not a stream of Toolbus
		switch c.Name {
		case subjects.Partition(0).Stream():
			events = c
		case subjects.AuditStream:
			records = c
		}
	}
	events.Name, events.Subjects = logStream, []string{logPrefix + ">"}
	records.Name, records.Subjects = recordStream, []string{recordSubject}
	return events, records
}
