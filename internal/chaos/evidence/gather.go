package evidence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/internal/deployment/deploymenttest"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// settled is how long the bus may take, after all faults, until every call has its outcome and AUDIT is complete, for
// each partition. After that, the rest counts as missing.
const settled = 45 * time.Second

// late is how long Gather then waits for events and records that should not come, such as a second outcome. It is
// longer than any retry of a writer.
const late = 3 * time.Second

// Gather reads the call log, the audit record and the dead letters into h, after every attempt has an outcome and its
// records. It reads from the server without a proxy. kept contains the events that have expired.
func Gather(ctx context.Context, at deploymenttest.Access, h *checker.History, kept Keepsake) error {
	js, done, err := Direct(at)
	if err != nil {
		return err
	}
	defer done()
	entries, err := readLog(ctx, js, nil)
	kept.add(entries)
	if err == nil {
		_, err = readAudit(ctx, js, kept.log())
	}
	if err != nil {
		return err
	}
	if !timer.Sleep(ctx, late) {
		return ctx.Err()
	}
	entries, err = readLog(ctx, js, nil)
	if err != nil {
		return err
	}
	kept.add(entries)
	h.Log = kept.log()
	if h.Kept, err = readAudit(ctx, js, h.Log); err != nil {
		return err
	}
	letters, err := deadletter.DeadLetters(ctx, reader.Streams(js))
	for _, l := range letters {
		h.Dead = append(h.Dead, checker.Grave{Ref: l.State.Ref(), Attempt: l.Attempt})
	}
	return err
}

// Direct connects to the servers without a proxy.
func Direct(at deploymenttest.Access) (js jetstream.JetStream, done func(), err error) {
	nc, err := at.Dial("chaos-checker")
	if err != nil {
		return nil, nil, err
	}
	if js, err = jetstream.New(nc); err != nil {
		nc.Close()
		return nil, nil, err
	}
	return js, nc.Close, nil
}

// readLog reads the events of all partitions after those in kept. If kept is nil, it waits until every attempt has an
// outcome. It leaves out what does not come in time.
func readLog(ctx context.Context, js jetstream.JetStream, kept Keepsake) ([]call.Entry, error) {
	n, err := bus.Partitions(ctx, js)
	if err != nil {
		return nil, err
	}
	var all []call.Entry
	for p := range subjects.Partition(n) {
		entries, err := readPart(ctx, js, p, kept.end(p)+1, kept != nil)
		if all = append(all, entries...); err != nil {
			return all, err
		}
	}
	return all, nil
}

func readPart(ctx context.Context, js jetstream.JetStream, part subjects.Partition, from uint64,
	between bool) ([]call.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, settled)
	defer cancel()
	var entries []call.Entry
	open := map[string]bool{}
	err := read(ctx, js, part.Stream(), from, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
		e, err := kv.DecodeEvent(msg.Subject(), msg.Headers())
		if err != nil {
			return false, fmt.Errorf("%s at %d: %w", msg.Subject(), meta.Sequence.Stream, err)
		}
		s := call.Fold(e, meta.Sequence.Stream) // the checker compares it with the event before it
		entries = append(entries, call.Entry{State: s, Kind: e.Kind, Attempt: e.Attempt, Body: msg.Data(),
			Time: meta.Timestamp})
		if id := fmt.Sprint(s.Ref(), e.Attempt); e.Kind == call.Decided {
			delete(open, id)
		} else if a, ok := s.Attempt(e.Attempt); ok && a.Open() {
			open[id] = true
		}
		return meta.NumPending == 0 && (between || len(open) == 0), nil
	})
	return entries, err
}

// readAudit reads all refusals, and the audit record until it contains the record of every event in log.
func readAudit(ctx context.Context, js jetstream.JetStream, log []call.Entry) (checker.Kept, error) {
	ctx, cancel := context.WithTimeout(ctx, settled)
	defer cancel()
	want := 0
	for _, e := range log {
		if len(audit.Project(e.Kind, e.Attempt, e.State, e.State.Seq, e.Time)) > 0 {
			want++
		}
	}
	var kept checker.Kept
	if want == 0 {
		return kept, nil
	}
	err := read(ctx, js, subjects.DeniedStream, 1, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
		return meta.NumPending == 0, kept.Add(msg.Data(), meta.Sequence.Stream, meta.Timestamp)
	})
	if err != nil {
		return kept, err
	}
	err = read(ctx, js, subjects.AuditStream, 1, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
		before := len(kept.Audit)
		if err := kept.Add(msg.Data(), meta.Sequence.Stream, meta.Timestamp); err != nil {
			return false, fmt.Errorf("%s at %d: %w", msg.Subject(), meta.Sequence.Stream, err)
		}
		for _, r := range kept.Audit[before:] {
			if r.LogSeq != 0 && r.FirstOfEvent() {
				want--
			}
		}
		return meta.NumPending == 0 && want <= 0, nil
	})
	return kept, err
}

// read passes the messages of a stream from a sequence on to take, in order, until take returns true or ctx ends.
func read(ctx context.Context, js jetstream.JetStream, stream string, from uint64,
	take func(jetstream.Msg, *jetstream.MsgMetadata) (bool, error)) error {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	if at := s.CachedInfo().State; at.Msgs == 0 || at.LastSeq < from {
		return nil
	}
	cons, err := js.OrderedConsumer(ctx, stream,
		jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from})
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	it, err := cons.Messages()
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	defer it.Stop()
	for {
		msg, err := it.Next(jetstream.NextContext(ctx))
		if errors.Is(err, context.DeadlineExceeded) {
			return nil // the checker reports what is missing
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", stream, err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			return fmt.Errorf("read %s: %w", stream, err)
		}
		if done, err := take(msg, meta); done || err != nil {
			return err
		}
	}
}
