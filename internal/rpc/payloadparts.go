package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Limits of the parts of payloads that one dispatcher holds at a time. A client of this module sends four parts of a
// payload at a time, of 512 KiB each.
const (
	maxPartsBytes       = 32 << 20 // bytes of parts that wait or are being stored
	maxTenantPartsBytes = 24 << 20
	maxActorPartsBytes  = 16 << 20
	maxParts            = 1024 // that wait, or are being stored or read
	maxTenantParts      = 512
	maxActorParts       = 256
	partsInTransfer     = 16 // that are being stored or read
	tenantInTransfer    = 12
	actorInTransfer     = 4
	partTurn            = 512 << 10 // bytes of a turn
)

func forParts() flow.QueueLimits {
	return flow.QueueLimits{
		Actor:   flow.Load{Items: maxActorParts, Bytes: maxActorPartsBytes, Slots: actorInTransfer},
		Tenant:  flow.Load{Items: maxTenantParts, Bytes: maxTenantPartsBytes, Slots: tenantInTransfer},
		All:     flow.Load{Items: maxParts, Bytes: maxPartsBytes, Slots: partsInTransfer},
		Quantum: partTurn, Least: actorInTransfer,
	}
}

// PartsOptions configure [TakeParts]. All fields are required.
type PartsOptions struct {
	NC  *nats.Conn
	Log *slog.Logger
	// Store stores a part under a subject and returns its sequence in the stream. If it returns a [jetstream.APIError],
	// that is sent to the sender. After another error there is no answer, and the sender sends the part again. Store must
	// not keep body after it returns.
	Store func(ctx context.Context, subject string, body []byte) (uint64, error)
	// OverQuota returns for how long an actor must not store parts because it or its tenant has reached its quota; 0 if it
	// may. tenant and actor are tokens of a subject.
	OverQuota func(tenant, actor string) time.Duration
}

// Parts receives the parts of payloads that clients send, and stores them if the quota of the sender permits it.
// Senders take turns. It answers as JetStream does. It drops the headers of a part, because the sender chose them and
// readers would trust stored headers.
type Parts struct {
	PartsOptions
	sub    *nats.Subscription
	intake *intake[*arrivedPart]
}

// arrivedPart is a received part. free releases the memory of its body.
type arrivedPart struct {
	subject, reply string
	body           []byte
	free           func()
}

// drop releases the body.
func (a *arrivedPart) drop() {
	a.free()
	a.body, a.free = nil, func() {}
}

// partTime is the time limit of storing a part.
const partTime = 5 * time.Second

// TakeParts receives parts until Stop, in a queue group with the other dispatchers.
func TakeParts(ctx context.Context, o PartsOptions) (*Parts, error) {
	p := &Parts{PartsOptions: o}
	p.intake = newIntake(o.Log, "parts of payloads", forParts(),
		func(a *arrivedPart, _ func()) { p.store(ctx, a) },
		func(a *arrivedPart, full *flow.QueueFullError) { p.answer(a, 0, p.crowded(a.subject, full)) })
	sub, err := o.NC.QueueSubscribe(subjects.PartsReceived, dispatcherQueue, func(m *nats.Msg) {
		p.put(&arrivedPart{m.Subject, m.Reply, m.Data, func() {}})
	})
	if err == nil {
		err = sub.SetPendingLimits(maxPending, maxPendingBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for parts of payloads: %w", err)
	}
	p.sub = sub
	return p, nil
}

// put puts a part into the queue of its sender.
func (p *Parts) put(a *arrivedPart) {
	p.intake.put(sender(a.subject), a, len(a.body), a.drop)
}

// Filter is [CallListener.Filter] for parts of payloads.
func (p *Parts) Filter(subject []byte, size int) FilterAction {
	if !bytes.HasPrefix(subject, []byte("tb.part.")) {
		return FilterPass
	}
	switch fate := p.intake.filter(subject, size); {
	case fate != FilterTake:
		return fate
	case p.overQuota(string(subject)) > 0:
		return FilterTakeHead
	}
	return FilterBorrow
}

func (p *Parts) overQuota(subject string) time.Duration {
	of := sender(subject)
	return p.OverQuota(of.Tenant, of.Actor)
}

// Take puts a part from a [FilterConn] into the queue of its sender. It does not block, and keeps the memory of m.
func (p *Parts) Take(m FilteredMessage) {
	a := &arrivedPart{m.Subject, m.Reply, m.Body, m.Free}
	if m.Trimmed {
		p.intake.turn(sender(m.Subject), a, &flow.QueueFullError{Of: "actor", Wait: flow.MinWait})
		return
	}
	p.put(a)
}

// Stop ends the subscription and waits for the parts that are being stored.
func (p *Parts) Stop() {
	_ = p.sub.Unsubscribe() // fails only if the connection is closed
	p.intake.stop(drained)
}

func (p *Parts) store(ctx context.Context, a *arrivedPart) {
	defer a.drop()
	part, err := subjects.ParsePayload(a.subject)
	if err != nil {
		p.answer(a, 0, refusedPart(bus.CodeOtherStream, "the subject is not that of a part of a payload"))
		return
	}
	if p.overQuota(a.subject) > 0 {
		p.answer(a, 0, p.crowded(a.subject, nil))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	sequence, err := p.Store(ctx, part.Subject(), a.body)
	switch refused, ok := errors.AsType[*jetstream.APIError](err); {
	case ok:
		p.answer(a, 0, refused)
	case err == nil:
		p.answer(a, sequence, nil)
	}
}

// crowded returns the error for a sender that has reached its quota, or that sends more parts at a time than there is
// room for.
func (p *Parts) crowded(subject string, full *flow.QueueFullError) *jetstream.APIError {
	if pause := p.overQuota(subject); pause > 0 || full == nil {
		return refusedPart(bus.CodeStoreFailed,
			fmt.Sprintf("you have filled the payload store: store nothing for %s", pause.Round(time.Second)))
	}
	return refusedPart(bus.CodeTooManyRequests, full.Error())
}

func refusedPart(code jetstream.ErrorCode, why string) *jetstream.APIError {
	return &jetstream.APIError{Code: 503, ErrorCode: code, Description: why}
}

// acknowledged is a publish acknowledgement of JetStream.
type acknowledged struct {
	Error    *jetstream.APIError `json:"error,omitzero"`
	Stream   string              `json:"stream"`
	Sequence uint64              `json:"seq"`
}

// answer answers the sender as JetStream does. The answer must contain nothing that the sender chose, because the
// sender can direct it to any subject of its account.
func (p *Parts) answer(a *arrivedPart, sequence uint64, refused *jetstream.APIError) {
	if subjects.Elsewhere(a.reply) {
		return
	}
	data, err := json.Marshal(acknowledged{Error: refused, Stream: subjects.PayloadsStream, Sequence: sequence})
	if err == nil {
		_ = p.NC.Publish(a.reply, data) // the sender sends the part again
	}
}
