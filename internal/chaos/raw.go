package chaos

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// raw makes the request without the client library. It publishes copies on several connections, and records every
// answer until the deadline and its grace have passed. If it gets no outcome, it records a local timeout, as the client
// library does.
func (d *driver) raw(ctx context.Context, seen *checker.Ask, req *envelope.Request, a ask) {
	req.CallID = a.callID
	req.Context.TraceID = a.callID
	req.Constraints.TimeoutMS = a.timeout.Milliseconds()
	req.Constraints.DeadlineUnixMS = seen.Due.UnixMilli()
	contentType := envelope.ContentJSON
	if a.msgpack {
		contentType = envelope.ContentMsgpack
	}
	data, err := envelope.EncodeRequest(contentType, req)
	if err != nil {
		seen.Unsent = err.Error()
		return
	}
	inbox, answers, drop := d.boxes[a.caller].Open()
	defer drop()
	send := func() {
		for i := range a.raw {
			msg := nats.NewMsg(subjects.Call(tenant, actorOf(a.caller), req.ToolID))
			msg.Header.Set(subjects.HeaderContentType, contentType)
			by := a.caller
			if by < callers { // another connection of the same actor, with another token
				by = (by + 2*i) % callers
			}
			if token := d.callers[by].Token; token != nil {
				msg.Header.Set(subjects.HeaderToken, token())
			}
			msg.Reply, msg.Data = inbox, data
			// In a goroutine, because publishing blocks while a connection reconnects. A lost copy is sent again.
			d.wg.Go(func() { _ = d.conns[by].NC.PublishMsg(msg) })
		}
	}
	send()
	d.collect(ctx, seen, answers, send)
	if len(seen.Answers) == 0 {
		seen.Answers = append(seen.Answers, envelope.Failure(a.callID, envelope.NewError(envelope.CodeTimeout, ""),
			envelope.Provenance{}, envelope.Metrics{}))
	}
}

// waits is how long after the deadline raw and visit wait for an answer. It is less than the promised 100 ms, to leave
// time for late timers on a busy machine.
const waits = 60 * time.Millisecond

// collect records answers until the deadline and its grace have passed. After the first outcome it waits only a little
// longer for duplicates.
func (d *driver) collect(ctx context.Context, seen *checker.Ask, answers <-chan *nats.Msg, send func()) {
	end := time.NewTimer(time.Until(seen.Due) + waits)
	defer end.Stop()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		select {
		case msg := <-answers:
			take(seen, msg)
			if len(seen.Answers) == 1 {
				end.Reset(min(50*time.Millisecond, time.Until(seen.Due)+waits))
			}
		case <-again.C:
			send()
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// take records one answer.
func take(seen *checker.Ask, msg *nats.Msg) {
	contentType := msg.Header.Get(subjects.HeaderContentType)
	switch msg.Header.Get(subjects.HeaderKind) {
	case "accepted":
		if a, bad := envelope.DecodeAccepted(contentType, msg.Data); bad == nil {
			seen.Accepted = append(seen.Accepted, *a)
		}
	case "outcome":
		if r, bad := envelope.DecodeResponse(contentType, msg.Data); bad == nil {
			seen.Answers = append(seen.Answers, r)
		}
	}
}
