package executorapi

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
)

// hello requests the time from the NATS server for each answer, so that the error of the executor's clock is at most
// half of its own round trip.
func (d *Server) hello(ctx context.Context, _ executorName, _ nothing) (HelloResponse, error) {
	now, err := d.Clock.Server(ctx)
	return HelloResponse{
		Now: now, Partitions: d.CallLog.Partitions(), Replicas: d.CallLog.Replicas(),
		LeaseMS: d.Lease.Milliseconds(), Fsync: d.Fsync, Identity: d.Identity,
	}, err
}

// work returns the consumers of the pool of the requesting executor. If a tool of this dispatcher names the pool, it
// first creates missing consumers.
func (d *Server) work(ctx context.Context, from executorName, _ nothing) (consumers, error) {
	keeper := workqueue.Watch(d.JS, from.pool, d.CallLog.Partitions())
	if slices.Contains(d.Made, from.pool) {
		keeper = workqueue.Keep(d.JS, from.pool, d.CallLog.Partitions(), d.Lease)
	}
	all, err := keeper.Look(ctx)
	return consumers{all}, err
}

func (d *Server) beat(ctx context.Context, _ executorName, q beating) (b beating, err error) {
	b.Seq, err = d.Pools.Newest(ctx, q.Pool, q.Instance)
	return b, err
}

// locked returns the safety locks. The refusal of a dispatcher that does not know them is temporary.
func (d *Server) locked(context.Context, executorName, nothing) (locked, error) {
	locks, age, err := d.Locks.Known()
	return locked{locks, (age + time.Millisecond - 1).Milliseconds(), call.At(d.Clock.Now())}, err
}

// own returns the state of a call. It refuses a call that is not of the pool of the requesting executor.
func (d *Server) own(ctx context.Context, from executorName, tool, id string, attempt int) (call.State, error) {
	last, err := d.CallLog.Head(ctx, tool, id)
	if err != nil {
		return call.State{}, err
	}
	if _, ok := last.State.Attempt(attempt); !ok {
		return call.State{}, refuse(envelope.CodeNotFound, "the attempt is not in the log any more")
	}
	if last.State.Pool != from.pool {
		return call.State{}, refuse(envelope.CodeForbidden, "the call is not one of your pool")
	}
	return last.State, nil
}

func (d *Server) late(ctx context.Context, from executorName, q late) (nothing, error) {
	s, err := d.own(ctx, from, q.Tool, q.ID, q.Attempt)
	if err != nil {
		return nothing{}, err
	}
	said := call.Completion{Error: q.Error, Effect: q.Effect, Fence: q.Fence, Output: q.Output}
	return nothing{}, d.Journal.LateResult(ctx, from.instance+"."+q.Record, s, q.Attempt, said)
}

// dead stores a dead letter. It takes the cause from the executor, but the sender and the input of the call from the
// call log, because a dead letter may be replayed in the name of the sender.
func (d *Server) dead(ctx context.Context, from executorName, body []byte) (*nats.Msg, error) {
	letter, err := deadletter.Parse(body, 0)
	if err != nil {
		return nil, malformed(err)
	}
	s, err := d.own(ctx, from, letter.State.Tool, letter.State.ID, letter.Attempt)
	if err != nil {
		return nil, err
	}
	a, _ := s.Attempt(letter.Attempt)
	asked, err := d.CallLog.Get(ctx, s.At(a.Admitted))
	if err == nil && (asked.State.ID != s.ID || asked.Kind != call.Requested) {
		err = refuse(envelope.CodeNotFound, "the request is not in the log any more")
	}
	if err != nil {
		return nil, err
	}
	letter.State, letter.Body, letter.Ref = s, asked.Body, "" // a reference would not be stored
	if err := deadletter.PublishOnce(ctx, d.JS, letter); err != nil {
		return nil, fmt.Errorf("a letter that %s has written: %w", from.instance, err)
	}
	return &nats.Msg{}, nil
}

// recorded waits until the audit record contains an event, up to recordedTime.
func (d *Server) recorded(ctx context.Context, _ executorName, q recordedRequest) (recordedResponse, error) {
	if q.Partition < 0 || int(q.Partition) >= d.CallLog.Partitions() {
		return recordedResponse{}, refuse(envelope.CodeMalformed, "there is no such partition")
	}
	soon, cancel := context.WithTimeout(d.open, recordedTime)
	defer cancel()
	err := d.Watermark.Wait(soon, q.Position, q.At)
	if soon.Err() != nil {
		return recordedResponse{}, ctx.Err()
	}
	return recordedResponse{err == nil}, err
}
