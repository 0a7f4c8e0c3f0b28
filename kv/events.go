package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// maxEvents is the largest number of events that Events returns. Each one takes a request.
const maxEvents = 100

// Events returns the valid events of a log that are still stored, from the request at a sequence on, oldest first and
// without their bodies. It returns at most maxEvents. The server keeps the newest 32 joins of an attempt. Events waits
// at most LogOptions.Answer. It is for a process that may read the log itself.
func (l *Log) Events(ctx context.Context, tool, id string, from uint64) (all []call.Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.answer)
	defer cancel()
	p, _ := l.part(id)
	key, state := subjects.Key{Tool: tool, ID: id, Partition: p}, call.State{}
	for seq := max(1, from); len(all) < maxEvents; seq++ {
		msg, err := l.local.parts[p].GetMsg(ctx, seq, jetstream.WithGetMsgSubject(key.Filter()))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read call log: %w", err)
		}
		seq = msg.Sequence
		if e, err := DecodeEvent(msg.Subject, msg.Header); err == nil && state.Allows(e) == nil {
			state = call.Fold(e, seq)
			all = append(all, call.Entry{State: state, Kind: e.Kind, Attempt: e.Attempt, Time: msg.Time})
		}
	}
	return all, nil
}
