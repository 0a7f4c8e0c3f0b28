package executorapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Server is what a dispatcher answers executors with. All but Fsync, Identity and OlderBuilds is required.
type Server struct {
	NC        *nats.Conn
	JS        jetstream.JetStream
	CallLog   *kv.Log
	Clock     *bus.Clock
	Pools     *heartbeat.Store
	Journal   *writer.Journal
	Watermark *writer.Watermark
	Payloads  *streaming.Payloads
	Chunks    *streaming.Store
	Made      []string // the pools whose consumers it makes
	Lease     time.Duration
	Fsync     bool
	Identity  bool // tokens say who is who
	// OlderBuilds answers every question at its reply subject, as executors of f16d274 expect.
	OlderBuilds bool
	Log         *slog.Logger

	drops    flow.Dropped
	subs     []*nats.Subscription
	quick    *flow.Lane[job]
	waiting  *flow.Lane[job] // questions that may wait for as long as coveredTime
	overload flow.OverloadLog
	open     context.Context // ends when it stops
	stop     context.CancelFunc
}

// executorName is an executor that asks; that it is, the server enforces.
type executorName struct{ pool, instance string }

// job is one question.
type job struct {
	op     string
	handle handler
	msg    *nats.Msg
	from   executorName
	to     string // the subject of the answer
}

// handler answers a question. An error that is no refusal is of now: the question is asked again.
type handler func(ctx context.Context, from executorName, body []byte) (*nats.Msg, error)

const (
	recordedTime     = answerTime * 3 / 4
	dispatchersQueue = "dispatchers"
	drainAtStop      = time.Second
	questionTime     = answerTime // nobody waits any longer
)

// Bounds of the questions of executors in one dispatcher, see [flow.QueueLimits]: pools take turns, and within one its
// instances. A question counts as its body and perQuestion.
const (
	maxAsked         = 16 * 1024 // that wait or are worked on
	maxPoolAsked     = 12 * 1024
	maxInstanceAsked = 4 * 1024
	maxAskedBytes    = 64 << 20
	maxQuick         = 256 // that are answered at once
	maxPoolQuick     = 128
	maxInstanceQuick = 32
	perQuestion      = 1 << 10
	turnBytes        = 8 << 10 // that an instance is answered in a turn
)

// limits bounds questions, of which so many are answered at once.
func limits(instance, pool, all int64) flow.QueueLimits {
	return flow.QueueLimits{
		Actor:   flow.Load{Items: maxInstanceAsked, Bytes: maxAskedBytes / 4, Slots: instance},
		Tenant:  flow.Load{Items: maxPoolAsked, Bytes: maxAskedBytes / 2, Slots: pool},
		All:     flow.Load{Items: maxAsked, Bytes: maxAskedBytes, Slots: all},
		Quantum: turnBytes,
	}
}

// Serve answers executors until Stop is called, shared with the other dispatchers.
func (d *Server) Serve(ctx context.Context) error {
	d.open, d.stop = context.WithCancel(ctx)
	answer := func(j job, _ func()) { d.answer(j) }
	d.quick = flow.NewLane(limits(maxInstanceQuick, maxPoolQuick, maxQuick), answer)
	d.waiting = flow.NewLane(limits(maxInstanceAsked, maxPoolAsked, maxAsked),
		answer) // each strict call is one that waits
	d.overload = flow.OverloadLog{Log: d.Log, Kind: "questions of executors, by pool and instance"}
	for op, handle := range map[string]handler{
		subjects.OpHello:  answering(d.hello),
		subjects.OpWork:   answering(d.work),
		subjects.OpBeat:   answering(d.beat),
		subjects.OpLate:   answering(d.late),
		subjects.OpLog:    asking(d.logged),
		subjects.OpNewest: asking(d.newest),
		subjects.OpDead:   d.dead,
	} {
		if err := d.listen(op, handle, d.quick); err != nil {
			return err
		}
	}
	return d.listen(subjects.OpCovered, answering(d.recorded), d.waiting)
}

func (d *Server) listen(op string, handle handler, in *flow.Lane[job]) error {
	sub, err := d.NC.QueueSubscribe(subjects.ExecutorRequestWildcard(op), dispatchersQueue, func(msg *nats.Msg) {
		d.take(in, job{op: op, handle: handle, msg: msg})
	})
	if err != nil {
		return fmt.Errorf("listen for executors: %w", err)
	}
	d.subs = append(d.subs, sub)
	return nil
}

const noWord = "a question of an executor names no word for its answer; executors of f16d274 ask like that, and " +
	"dispatchers answer them with --older-builds"

// take puts a question where the questions of its executor wait. A question that finds no room is dropped and counted:
// its executor asks again, of any dispatcher.
func (d *Server) take(in *flow.Lane[job], j job) {
	var ok bool
	if j.to, ok = d.answerTo(j.msg); !ok {
		d.drops.Note(d.Log, noWord, j.msg.Subject)
		return
	}
	var err error
	if j.from.pool, j.from.instance, err = subjects.ParseExecutorRequest(j.op, j.msg.Subject); err != nil {
		d.drops.Note(d.Log, err.Error(), j.msg.Subject)
		return
	}
	from := flow.Sender{Tenant: j.from.pool, Actor: j.from.instance}
	if in.Put(from, j, int64(len(j.msg.Data))+perQuestion) != nil {
		d.overload.Note(from, true)
	}
}

// Stop takes no more questions, and returns when those that are here are answered.
func (d *Server) Stop() {
	end := time.NewTimer(drainAtStop)
	defer end.Stop()
	for _, sub := range d.subs {
		closed := sub.StatusChanged(nats.SubscriptionClosed)
		if sub.Drain() != nil { // it is gone with the connection
			continue
		}
		select {
		case <-closed:
		case <-end.C:
			end.Reset(0)
		}
	}
	d.stop()
	d.waiting.Stop(drainAtStop)
	d.quick.Stop(drainAtStop)
}

// answerTo returns where a question of an executor is answered: below the subject of its own answers, under the word
// that it names. Permissions do not cover reply subjects, so that an answer there could reach any subject of an
// account.
func (d *Server) answerTo(msg *nats.Msg) (to string, ok bool) {
	if d.OlderBuilds {
		return msg.Reply, !subjects.Elsewhere(msg.Reply)
	}
	return subjects.ExecutorAnswer(msg.Subject, msg.Header.Get(subjects.HeaderAnswer))
}

// answer answers one question.
func (d *Server) answer(j job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.open), questionTime)
	defer cancel()
	answer, err := d.unharmed(ctx, j)
	if err != nil {
		if answer, err = refused(d.denied(ctx, j.from, err)); err != nil {
			return // unreachable: refusals are our own type
		}
	}
	if answer.Subject != "" { // the server answers, with a stored message
		answer.Reply = j.to
		_ = d.NC.PublishMsg(answer) // it is asked again
		return
	}
	answer.Subject = j.to
	if d.NC.PublishMsg(answer) != nil { // it is asked again; what is too large is said so
		if answer, err = refused(refuse(envelope.CodeLimit, "the answer is too large")); err == nil {
			answer.Subject = j.to
			_ = d.NC.PublishMsg(answer) // it is asked again
		}
	}
}

// unharmed answers a question, also where that panics.
func (d *Server) unharmed(ctx context.Context, j job) (answer *nats.Msg, err error) {
	defer func() {
		if p := recover(); p != nil {
			d.Log.Error("panic", "operation", "executor request "+j.op, "panic", p, "stack", string(debug.Stack()))
			err = refuse(envelope.CodeInternal, "the dispatcher failed at this question; its log says where")
		}
	}()
	return j.handle(ctx, j.from, j.msg.Data)
}

// denied puts on record that an executor has asked for what is not of its pool, and returns what it is told.
func (d *Server) denied(ctx context.Context, from executorName, err error) error {
	r, ok := errors.AsType[*refusal](err)
	if !ok || r.says.Code != envelope.CodeForbidden {
		return err
	}
	of := call.Sender{Actor: "executor://" + from.pool + "/" + from.instance}
	if _, _, unrecorded := d.Journal.Denied(ctx, &call.IncomingRequest{From: of}, nil, r.says); unrecorded != nil {
		return unrecorded // it asks again
	}
	return err
}

func refused(err error) (*nats.Msg, error) {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		r = &refusal{envelope.NewError(envelope.CodeUnavailable, "").WithCause(err.Error())}
	}
	data, err := format.Marshal(format.Message, envelope.ServiceRefusal{Refusal: r.says})
	return &nats.Msg{Data: data, Header: nats.Header{subjects.HeaderKind: {envelope.KindRefusal}}}, err
}

// asking returns the handler that decodes a question for handle.
func asking[Q any](handle func(context.Context, executorName, Q) (*nats.Msg, error)) handler {
	return func(ctx context.Context, from executorName, body []byte) (*nats.Msg, error) {
		var q Q
		if err := format.Unmarshal(format.Message, body, &q); err != nil {
			return nil, malformed(err)
		}
		return handle(ctx, from, q)
	}
}

// malformed is what is said of a question that cannot be read. One of a newer build may find a newer dispatcher.
func malformed(err error) error {
	if format.IsUnsupported(err) {
		return err
	}
	return &refusal{envelope.NewError(envelope.CodeMalformed, "").WithCause(err.Error())}
}

// answering returns the handler that also encodes the answer.
func answering[Q, A any](handle func(context.Context, executorName, Q) (A, error)) handler {
	return asking(func(ctx context.Context, from executorName, q Q) (*nats.Msg, error) {
		a, err := handle(ctx, from, q)
		if err != nil {
			return nil, err
		}
		data, err := format.Marshal(format.Message, a)
		return &nats.Msg{Data: data}, err
	})
}
