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
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Server handles the requests of executors in a dispatcher. All fields except Locks, Fsync and Identity are required.
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
	Locks     *lock.Board
	Made      []string // the pools whose consumers it creates
	Lease     time.Duration
	Fsync     bool
	Identity  bool // dispatchers verify tokens
	Log       *slog.Logger

	intake intake
	open   context.Context // ends when it stops
	stop   context.CancelFunc
}

// intake is where requests arrive and wait.
type intake struct {
	subs     []*nats.Subscription
	quick    *flow.Lane[job]
	waiting  *flow.Lane[job] // requests that may wait for as long as recordedTime
	drops    flow.Dropped
	overload flow.OverloadLog
}

// executorName is the requesting executor, from the subject. The NATS server permits an executor only its own name
// there.
type executorName struct{ pool, instance string }

// job is one request.
type job struct {
	op     string
	handle handler
	msg    *nats.Msg
	from   executorName
	to     string // the subject of the answer
}

// handler handles a request. An error that is not a refusal is temporary: the executor repeats the request.
type handler func(ctx context.Context, from executorName, body []byte) (*nats.Msg, error)

const (
	recordedTime     = answerTime * 3 / 4
	dispatchersQueue = "dispatchers"
	drainAtStop      = time.Second
	questionTime     = answerTime // the client waits no longer
)

// Limits of the requests of executors in one dispatcher, see [flow.QueueLimits]: pools take turns, and within a pool
// its instances. The size of a request is that of its body plus perQuestion.
const (
	maxAsked         = 16 * 1024 // requests that wait or are handled
	maxPoolAsked     = 12 * 1024
	maxInstanceAsked = 4 * 1024
	maxAskedBytes    = 64 << 20
	maxQuick         = 256 // requests that are handled at the same time
	maxPoolQuick     = 128
	maxInstanceQuick = 32
	perQuestion      = 1 << 10
	turnBytes        = 8 << 10 // bytes of one instance in a turn
)

// limits returns the limits of a queue. The arguments are how many requests of an instance, of a pool and of all are
// handled at the same time.
func limits(instance, pool, all int64) flow.QueueLimits {
	return flow.QueueLimits{
		Actor:   flow.Load{Items: maxInstanceAsked, Bytes: maxAskedBytes / 4, Slots: instance},
		Tenant:  flow.Load{Items: maxPoolAsked, Bytes: maxAskedBytes / 2, Slots: pool},
		All:     flow.Load{Items: maxAsked, Bytes: maxAskedBytes, Slots: all},
		Quantum: turnBytes,
	}
}

// Serve handles the requests of executors until Stop is called, in a queue group with the other dispatchers.
func (d *Server) Serve(ctx context.Context) error {
	d.open, d.stop = context.WithCancel(ctx)
	answer := func(j job, _ func()) { d.answer(j) }
	d.intake.quick = flow.NewLane(limits(maxInstanceQuick, maxPoolQuick, maxQuick), answer)
	d.intake.waiting = flow.NewLane(limits(maxInstanceAsked, maxPoolAsked, maxAsked),
		answer) // each strict call waits with one request
	d.intake.overload = flow.OverloadLog{Log: d.Log, Kind: "questions of executors, by pool and instance"}
	for op, handle := range map[string]handler{
		subjects.OpHello:  answering(d.hello),
		subjects.OpWork:   answering(d.work),
		subjects.OpBeat:   answering(d.beat),
		subjects.OpLate:   answering(d.late),
		subjects.OpLocked: answering(d.locked),
		subjects.OpLogin:  answering(d.login),
		subjects.OpLog:    asking(d.logged),
		subjects.OpNewest: asking(d.newest),
		subjects.OpDead:   d.dead,
	} {
		if err := d.listen(op, handle, d.intake.quick); err != nil {
			return err
		}
	}
	return d.listen(subjects.OpCovered, answering(d.recorded), d.intake.waiting)
}

func (d *Server) listen(op string, handle handler, in *flow.Lane[job]) error {
	sub, err := d.NC.QueueSubscribe(subjects.ExecutorRequestWildcard(op), dispatchersQueue, func(msg *nats.Msg) {
		d.take(in, job{op: op, handle: handle, msg: msg})
	})
	if err != nil {
		return fmt.Errorf("listen for executors: %w", err)
	}
	d.intake.subs = append(d.intake.subs, sub)
	return nil
}

const noWord = "a question of an executor names no word for its answer"

// take puts a request into the queue of its executor. If there is no room, it drops and counts the request. The
// executor repeats it, and any dispatcher may receive it. The answer goes below the subject of the executor's own
// answers, with the reply token in the header, and not to the reply subject: permissions do not restrict that, so an
// executor could direct an answer to any subject of its account.
func (d *Server) take(in *flow.Lane[job], j job) {
	var ok bool
	if j.to, ok = subjects.ExecutorAnswer(j.msg.Subject, j.msg.Header.Get(subjects.HeaderAnswer)); !ok {
		d.intake.drops.Note(d.Log, noWord, j.msg.Subject)
		return
	}
	var err error
	if j.from.pool, j.from.instance, err = subjects.ParseExecutorRequest(j.op, j.msg.Subject); err != nil {
		d.intake.drops.Note(d.Log, err.Error(), j.msg.Subject)
		return
	}
	from := flow.Sender{Tenant: j.from.pool, Actor: j.from.instance}
	if in.Put(from, j, int64(len(j.msg.Data))+perQuestion) != nil {
		d.intake.overload.Note(from, true)
	}
}

// Stop ends the subscriptions and returns when the received requests are handled.
func (d *Server) Stop() {
	end := time.NewTimer(drainAtStop)
	defer end.Stop()
	for _, sub := range d.intake.subs {
		closed := sub.StatusChanged(nats.SubscriptionClosed)
		if sub.Drain() != nil { // the connection is closed, and the subscription with it
			continue
		}
		select {
		case <-closed:
		case <-end.C:
			end.Reset(0)
		}
	}
	d.stop()
	d.intake.waiting.Stop(drainAtStop)
	d.intake.quick.Stop(drainAtStop)
}

// answer handles one request and sends the answer.
func (d *Server) answer(j job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.open), questionTime)
	defer cancel()
	answer, err := d.unharmed(ctx, j)
	if err != nil {
		if answer, err = refused(d.denied(ctx, j.from, err)); err != nil {
			return // cannot happen: refusals can always be encoded
		}
	}
	if answer.Subject != "" { // the NATS server answers, with a stored message
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

// unharmed handles a request. If the handler panics, it logs the stack and returns a refusal.
func (d *Server) unharmed(ctx context.Context, j job) (answer *nats.Msg, err error) {
	defer func() {
		if p := recover(); p != nil {
			d.Log.Error("panic", "operation", "executor request "+j.op, "panic", p, "stack", string(debug.Stack()))
			err = refuse(envelope.CodeInternal, "the dispatcher failed at this question; its log says where")
		}
	}()
	return j.handle(ctx, j.from, j.msg.Data)
}

// denied writes to the audit record that an executor requested something that is not of its pool. It returns err, or
// the error of the write.
func (d *Server) denied(ctx context.Context, from executorName, err error) error {
	r, ok := errors.AsType[*refusal](err)
	if !ok || r.says.Code != envelope.CodeForbidden {
		return err
	}
	of := call.Sender{Actor: "executor://" + from.pool + "/" + from.instance}
	if _, _, unrecorded := d.Journal.Denied(ctx, audit.Refusal{
		In: &call.IncomingRequest{From: of}, Error: r.says, Step: audit.StepIdentity, Rule: audit.RuleExecutor,
	}); unrecorded != nil {
		return unrecorded // the executor repeats the request
	}
	return err
}

func refused(err error) (*nats.Msg, error) {
	r, ok := errors.AsType[*refusal](err)
	if damaged, is := errors.AsType[*call.DamagedError](err); is {
		r, ok = &refusal{envelope.NewError(envelope.CodeLogDamaged, damaged.Error())}, true
	}
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
