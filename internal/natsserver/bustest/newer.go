package bustest

import (
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Newer appends an event to the log of s in the format of the next build, and returns its sequence.
func (b *Bus) Newer(s call.State) uint64 {
	b.T.Helper()
	e, left := call.JoinAll(s, 1, []string{"later"}, "n.1")
	if len(left) > 0 {
		b.T.Fatal("no room")
	}
	return b.Raw(kv.EventSubject(e), strconv.Itoa(format.EventNow+1)+kv.EncodeEvent(e)[1:])
}

// Raw publishes a message with the given event header to the call log, and returns its sequence.
func (b *Bus) Raw(subject, event string) uint64 {
	b.T.Helper()
	ack, err := b.JS.PublishMsg(b.T.Context(),
		&nats.Msg{Subject: subject, Header: nats.Header{subjects.HeaderEvent: {event}}})
	if err != nil {
		b.T.Fatal(err)
	}
	return ack.Sequence
}
