package reader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// pageMessages is the largest number of messages in a page. [bus.MaxChunkBytes] limits its size.
const pageMessages = 1024

// ServePage answers a request of [ViaDispatcher].
func ServePage(ctx context.Context, js jetstream.JetStream,
	q envelope.StreamReadRequest) (page envelope.StreamReadResponse, err error) {
	if q.Only == envelope.OnlyRecorded {
		page.Recorded, err = recorded(ctx, js)
		return page, err
	}
	switch q.Stream {
	case subjects.AuditStream, subjects.SurplusStream, subjects.DeniedStream, subjects.DeadStream:
	default:
		return page, fmt.Errorf("%.100q is no stream of the record", q.Stream)
	}
	state, err := streams{js}.State(ctx, q.Stream)
	page.First, page.Last, page.Held = state.First, state.Last, state.Messages
	if err != nil || q.Only == envelope.OnlyState || q.After >= state.Last {
		return page, err
	}
	err = fill(ctx, js, q, &page)
	return page, err
}

// fill adds messages to the page until it is full or the stream ends.
func fill(ctx context.Context, js jetstream.JetStream, q envelope.StreamReadRequest,
	page *envelope.StreamReadResponse) error {
	from, room := StartAt{q.After, q.Since, q.Tenant}, bus.MaxChunkBytes
	cfg := from.config(q.Stream)
	cfg.NamePrefix = rand.Text()
	for m, err := range bus.Messages(ctx, js, q.Stream, cfg, pageTime) {
		if err != nil {
			return err
		}
		data := m.Data()
		one := envelope.StreamMessage{Seq: m.Seq, Time: m.Time, Size: len(data)}
		if len(page.Messages) == 0 {
			one.Data = data[min(max(q.Offset, 0), len(data)):]
			one.Data = one.Data[:min(room, len(one.Data))]
		} else if one.Data = data; len(data) > room {
			page.More = true
			return nil
		}
		page.Messages, room = append(page.Messages, one), room-len(one.Data)
		if room <= 0 || len(page.Messages) == pageMessages {
			page.More = true
			return nil
		}
	}
	return nil
}

const (
	pageTime     = 2 * time.Second // for each message of a page to arrive
	recordedTime = 2 * time.Second // for the audit record to be complete
)

// recorded waits up to recordedTime for the audit record to hold the whole call log, and reports whether it does.
func recorded(ctx context.Context, js jetstream.JetStream) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, recordedTime)
	defer cancel()
	err := writer.WaitRecorded(waiting, js)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}
