package baseline

import (
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// FloorStreams are the streams that a call writes to.
var FloorStreams = [...]string{logStream, recordStream}

const (
	logStream    = "FLOOR_LOG"
	recordStream = "FLOOR_AUDIT"
)

// topology returns the two streams: those of Toolbus in all but their names, so that the server does the same for
// each message. Its log holds so many bytes; 0 for as many as Toolbus's does.
func topology(bytes int64) (events, records jetstream.StreamConfig) {
	for _, c := range bus.Streams(bus.TopologyOptions{Partitions: 1, CallsBytes: bytes}) {
		c.Description, c.Metadata = "", nil // it is no stream of Toolbus
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
