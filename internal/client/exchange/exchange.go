package exchange

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Sender sends the requests of a client. All fields are required, except where they say otherwise. Its methods are safe
// for concurrent use.
type Sender struct {
	Inbox *rpc.Inbox
	Calls *Calls
	Crew  *flow.WorkerPool[func()] // sends requests again
	// Payloads stores what is too large to travel inline; without it such requests are not sent.
	Payloads *streaming.Payloads
	Renews   func() bool // the token is renewed if it has expired; nil is never
}

// Exchange is one request of a call, and the answers to it.
type Exchange struct {
	request
	sender *Sender
	msg    nats.Msg
	values [2]string // of the headers that are always the same
}

// Open makes an exchange of a request of a call. A large input goes to the payload store first, for the executors of
// pool. The error is an [Unsendable], one of the payload store, or that of the inbox. Close the exchange when done.
func (s *Sender) Open(of *Call, req *envelope.Request, pool string) (*Exchange, error) {
	x := &Exchange{sender: s, values: [...]string{envelope.ContentJSON, "1"}}
	x.request = request{Of: of, Body: req, Answer: make(chan *envelope.Response, 1), Send: x.resend, Renews: s.Renews}
	if of.panicked != nil {
		x.Acceptances, x.Missed = make(chan *envelope.Accepted, 1), make(chan struct{}, 1)
	}
	if err := x.encode(pool); err != nil {
		return nil, err
	}
	if of.patient {
		x.msg.Header[subjects.HeaderPatient] = x.values[1:2:2]
	}
	x.msg.Reply = s.Inbox.Open(x.receive)
	s.Inbox.Vouch(x.msg.Header)
	return x, nil
}

// Unsendable is the error of a request that cannot be sent.
type Unsendable struct{ Reason *envelope.Error }

// Error implements error.
func (u Unsendable) Error() string { return u.Reason.String() }

// encode makes the message of the request.
func (x *Exchange) encode(pool string) (err error) {
	sent, msg, inbox := *x.Body, &x.msg, x.sender.Inbox
	msg.Subject = subjects.Call(inbox.Tenant, inbox.Actor, sent.ToolID)
	msg.Header = nats.Header{subjects.HeaderContentType: x.values[0:1:1]}
	if len(sent.Input) > envelope.MaxInline {
		ref, err := x.store(pool, sent.Input)
		if err != nil {
			return err
		}
		msg.Header.Set(subjects.HeaderInputRef, ref.String())
		sent.Input = []byte("null")
	}
	if msg.Data, err = envelope.AppendRequest(nil, &sent); err != nil { // a text of it is no UTF-8
		sent.Input = []byte("null")
		reason := cmp.Or(sent.Check(), envelope.NewError(envelope.CodeMalformed, ""))
		return Unsendable{reason.WithCause(err.Error())}
	}
	if most := inbox.NC.MaxPayload(); most > 0 && int64(msg.Size()) > most {
		return Unsendable{envelope.NewError(envelope.CodeLimit,
			fmt.Sprintf("the request is %d bytes, and the server takes at most %d", msg.Size(), most))}
	}
	return nil
}

// store puts a large input into the payload store.
func (x *Exchange) store(pool string, input []byte) (envelope.PayloadRef, error) {
	s := x.sender
	if s.Payloads == nil {
		return envelope.PayloadRef{}, fmt.Errorf("%w: an input of more than %d bytes goes through the payload store, and "+
			"this client has none: set Options.Payloads",
			streaming.ErrTooLarge, envelope.MaxInline)
	}
	bounded, cancel := x.Of.Graced()
	defer cancel()
	return s.Payloads.PutNow(bounded, subjects.Owner{Tenant: s.Inbox.Tenant, Actor: s.Inbox.Actor}.On(pool), input)
}

// Reply returns the subject on which the answers come.
func (x *Exchange) Reply() string { return x.msg.Reply }

// Start sends the request for the first time. The same call id always gets the same outcome, so it may be sent again:
// the watcher does so until the outcome is here, or the deadline and its grace have passed. The error is [ErrStopped]
// if the call has ended for its caller, or that of a closed connection.
func (x *Exchange) Start() error {
	if !x.Of.begin(x.Body) || !x.sender.Calls.launch(&x.request, time.Now()) {
		return ErrStopped
	}
	if err := x.publish(); err != nil && x.sender.Inbox.NC.IsClosed() {
		return err
	}
	return nil
}

// publish sends a copy of the request, for as long as the connection takes.
func (x *Exchange) publish() error {
	err := x.sender.Inbox.NC.PublishMsg(x.vouched())
	x.sender.Calls.sent(&x.request, err)
	return err
}

// vouched returns the message with the current token. It copies a message with an older token, because another
// goroutine may still be writing that message.
func (x *Exchange) vouched() *nats.Msg {
	inbox := x.sender.Inbox
	if inbox.Token == nil || x.msg.Header.Get(subjects.HeaderToken) == inbox.Token() {
		return &x.msg
	}
	fresh := x.msg
	fresh.Header = maps.Clone(x.msg.Header)
	inbox.Vouch(fresh.Header)
	return &fresh
}

// resend sends a copy in a worker, unless the call has ended by then. The watcher never waits for the connection.
func (x *Exchange) resend() {
	x.sender.Crew.Start(func() {
		if x.Of.begin(x.Body) {
			_ = x.publish() // the watcher knows
		}
	})
}

// receive handles an answer. Answers that cannot be decoded are dropped: the request is sent again.
func (x *Exchange) receive(msg *nats.Msg) {
	contentType := msg.Header.Get(subjects.HeaderContentType)
	switch msg.Header.Get(subjects.HeaderKind) {
	case envelope.KindAccepted:
		if a, bad := envelope.DecodeAccepted(contentType, msg.Data); bad == nil {
			x.sender.Calls.accepted(&x.request, a, time.Now())
		}
	case envelope.KindOutcome:
		if r, bad := envelope.DecodeResponse(contentType, msg.Data); bad == nil {
			x.sender.Calls.answered(&x.request, Sane(r))
		}
	}
}

// Sane returns r with retry_after_ms in the range that this library allows. Another build may have written another
// value.
func Sane(r *envelope.Response) *envelope.Response {
	if r.Error != nil {
		r.Error.Details.RetryAfterMS = min(max(0, r.Error.Details.RetryAfterMS), envelope.MaxRetryAfter.Milliseconds())
	}
	return r
}

// Close ends the exchange, whether it was started or not. The call goes on.
func (x *Exchange) Close() {
	x.sender.Calls.drop(x.Of)
	x.sender.Inbox.Drop(x.msg.Reply)
}
