package kv

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Values of the header of a marker.
const (
	repairAccept = "accept"
	repairRefuse = "refuse"
)

// Repair writes the decision of an operator about a damaged log, as a marker after what is left of it. The marker is
// newer than what was lost. So from then on, each reader takes the log for an empty one, or returns a
// [call.DamagedError] that is Refused. The marker expires some seconds after the newest event that was known. Repair
// fails if the log has changed since d was found.
func (l *Log) Repair(ctx context.Context, tool, id string, d *call.DamagedError, refuse bool) error {
	p, in := l.part(id)
	key := subjects.Key{Tool: tool, ID: id, Partition: p}
	msg := nats.NewMsg(key.Marker())
	msg.Header.Set("KV-Operation", "DEL") // to the tools of NATS it is a deleted key
	msg.Header.Set(subjects.HeaderRepair, repairAccept)
	if refuse {
		msg.Header.Set(subjects.HeaderRepair, repairRefuse)
	}
	life := max(d.Expires.Sub(in.kept.now()), 0) + keptMargin
	msg.Header.Set(jetstream.MsgTTLHeader, strconv.Itoa(int(life/time.Second)))
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(d.End, 10))
	msg.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, key.Filter())
	_, err := publish(ctx, l.js, msg, l.answer)
	return err
}

// Expect makes the newest event of a log known that another process has found damaged, see [call.DamagedError].
func (l *Log) Expect(tool, id string, newest uint32, expires time.Time) {
	_, in := l.part(id)
	in.kept.put(keptIDOf(tool, id), uint64(newest), in.kept.now(), expires)
}
