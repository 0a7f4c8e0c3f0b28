package writer

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// fence is the last message that follows on the records of builds before segments: it says up to where those had come.
// They take it for a record of a newer build, as which it stops them; otherwise they would put on record once more what
// segments hold.
type fence struct {
	Form    int            `json:"form"` // that of a record
	Through audit.Position `json:"through,omitzero"`
	Oldest  uint64         `json:"oldest_open,omitzero"`
}

// Headers of a record of a build before segments.
const (
	headerLogSeq = "Tb-Log-Seq"
	headerOpen   = "Tb-Open"
)

// former reads up to where builds before segments have put a partition on record, and where their records end; fenced
// says that they have been stopped.
func former(ctx context.Context, js jetstream.JetStream,
	part subjects.Partition) (f fence, end uint64, fenced bool, err error) {
	all, at := part.FormerLog()
	soon, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	stream, err := js.Stream(soon, subjects.AuditStream)
	if err != nil {
		return f, 0, false, fmt.Errorf("audit: %w", err)
	}
	msg, err := stream.GetLastMsgForSubject(soon, all)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return f, 0, false, nil
	case err != nil && !errors.Is(err, nats.ErrBadHeaderMsg):
		return f, 0, false, fmt.Errorf("audit: %w", err)
	case err == nil && msg.Subject == at && json.Unmarshal(msg.Data, &f) == nil:
		return f, msg.Sequence, true, format.Record.Check(f.Form)
	}
	for msg, err := range bus.Messages(ctx, js, subjects.AuditStream,
		jetstream.OrderedConsumerConfig{FilterSubjects: []string{all}}, bus.ReadTimeout) {
		if err != nil {
			return f, 0, false, fmt.Errorf("audit: %w", err)
		}
		end = msg.Seq
		if err := f.take(msg); err != nil {
			return f, 0, false, err
		}
	}
	return f, end, false, nil
}

// take goes on to a record. What is none was put there by somebody else.
func (f *fence) take(msg jetstream.Msg) error {
	seq, bad := strconv.ParseUint(msg.Headers().Get(headerLogSeq), 10, 64)
	r, ok, err := audit.Decode(msg.Data())
	if bad != nil || !ok || err != nil {
		return err
	}
	f.Through = audit.Position{Seq: seq, Time: r.Timestamp}
	f.Oldest, _ = strconv.ParseUint(msg.Headers().Get(headerOpen), 10, 64) // absent in all but the last of a batch
	return nil
}

// raise stops builds before segments where their records end. An error is also that they have gone on meanwhile.
func (f fence) raise(ctx context.Context, js jetstream.JetStream, part subjects.Partition, end uint64) error {
	ctx, cancel := context.WithTimeout(ctx, ackTime)
	defer cancel()
	all, at := part.FormerLog()
	f.Form = format.Record.Current()
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("audit fence: %w", err)
	}
	_, err = js.PublishMsg(ctx, &nats.Msg{Subject: at, Data: data, Header: nats.Header{
		headerLogSeq:                            {strconv.FormatUint(f.Through.Seq, 10)},
		jetstream.ExpectedLastSubjSeqHeader:     {strconv.FormatUint(end, 10)},
		jetstream.ExpectedLastSubjSeqSubjHeader: {all},
	}})
	if err != nil {
		return fmt.Errorf("audit fence: %w", err)
	}
	return nil
}

// begin stops builds before segments, before the first segment of a partition is stored, and makes sure that what they
// have put on record is not put there again.
func (p *Projector) begin(ctx context.Context) error {
	if p.chain.hash != "" {
		return nil
	}
	f, end, fenced, err := former(ctx, p.chain.js, p.part)
	if err == nil && !fenced {
		err = f.raise(ctx, p.chain.js, p.part, end)
	}
	if err == nil && f.Through != p.fence.Through {
		err = errOvertaken
	}
	return err
}
