package rpc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	chacha "math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Inbox sends the requests of one actor or one executor, and receives the answers. Answers are published below the
// prefix of that actor or executor: responders answer on no other subjects. Its methods are safe for concurrent use.
type Inbox struct {
	Tenant, Actor string
	NC            *nats.Conn
	// Token returns the current token for the header of messages. If it is nil or returns "", messages carry no token.
	Token func() string

	prefix string // of reply subjects
	skip   int    // bytes of a reply subject before the part that is sent in subjects.HeaderAnswer
	subs   []*nats.Subscription
	clock  busClock

	mu      sync.Mutex
	waiting map[string]func(*nats.Msg) // by the last token of the reply subject
	words   *chacha.ChaCha8
}

// NewInbox returns an inbox of the actor over nc. It does not close nc. The caller must close the inbox. Its reply
// subjects are below [subjects.Answers] of the actor, followed by the further tokens of a subject: the holder of a
// bound token can subscribe only to subjects below its family.
func NewInbox(nc *nats.Conn, tenant, actor string, further ...string) (*Inbox, error) {
	own := subjects.Answers(tenant, actor)
	prefix := own + strings.Join(append(further, rand.Text()), ".") + "."
	in := &Inbox{Tenant: tenant, Actor: actor, NC: nc, prefix: prefix, skip: len(own)}
	return in, in.listen(in.prefix)
}

// OpenInbox is [NewInbox] for the holder of a token. It listens where the server lets that token read. Without a
// token, which is nil then, it is NewInbox.
func OpenInbox(nc *nats.Conn, tenant, actor string, token func() string) (*Inbox, error) {
	var claims auth.Principal
	if token != nil {
		claims, _ = auth.Inspect(token()) // dispatchers refuse what is no token of theirs
	}
	in, err := NewInbox(nc, tenant, actor, claims.Below()...)
	in.Token = token
	return in, err
}

// Inbox returns an inbox for the requests of an executor to dispatchers. The caller must close it. They answer below
// [subjects.ExecutorAnswers]. On the reply subject the server says that no dispatcher listens.
func (c *Control) Inbox(pool, instance string) (*Inbox, error) {
	in := &Inbox{NC: c.NC, prefix: c.NC.NewInbox() + "."}
	in.skip = len(in.prefix)
	return in, in.listen(in.prefix, subjects.ExecutorAnswers(pool, instance))
}

// listen subscribes to all subjects with one more token than a prefix.
func (in *Inbox) listen(prefixes ...string) error {
	in.waiting, in.words = map[string]func(*nats.Msg){}, words()
	for _, prefix := range prefixes {
		sub, err := in.NC.Subscribe(prefix+"*", in.receive)
		if err != nil {
			return fmt.Errorf("client inbox: %w", errors.Join(err, in.Close()))
		}
		in.subs = append(in.subs, sub)
	}
	return nil
}

// Close ends the subscriptions. Later requests return [ErrClosed], or an error of the connection if that is closed.
func (in *Inbox) Close() (err error) {
	for _, sub := range in.subs {
		err = errors.Join(err, sub.Unsubscribe())
	}
	return err
}

// receive calls the function of the reply subject. It drops messages for unknown reply subjects, because answers may
// come twice.
func (in *Inbox) receive(msg *nats.Msg) {
	in.mu.Lock()
	take := in.waiting[in.token(msg.Subject)]
	in.mu.Unlock()
	if take != nil {
		take(msg)
	}
}

func (in *Inbox) token(reply string) string { return reply[strings.LastIndexByte(reply, '.')+1:] }

// words returns the random generator for the last tokens of reply subjects.
func words() *chacha.ChaCha8 {
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails
	return chacha.NewChaCha8(seed)
}

// Open returns a new reply subject and calls take for each message on it, until [Inbox.Drop]. take must not block,
// because the inbox calls all its take functions one after the other. A responder learns the reply subject of its
// request and must not be able to guess others, so the subject ends with 64 bits of a stream cipher with a random key,
// which take a few nanoseconds to generate.
func (in *Inbox) Open(take func(*nats.Msg)) (reply string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	reply = string(strconv.AppendUint(append(make([]byte, 0, 192), in.prefix...), in.words.Uint64(), 36))
	in.waiting[reply[len(in.prefix):]] = take
	return reply
}

// Question opens a question of an executor: it calls take with the body of each message on a new reply subject, until
// close. The id is the last token of that subject. See [Inbox.Open].
func (in *Inbox) Question(take func(body []byte)) (id string, close func()) {
	reply := in.Open(func(msg *nats.Msg) { take(msg.Data) })
	return in.token(reply), func() { in.Drop(reply) }
}

// word returns the part of a reply subject of [Inbox.Open] after the prefix of the actor. Requests also carry it in
// [subjects.HeaderAnswer], because the server replaces their reply subjects between accounts.
func (in *Inbox) word(reply string) string { return reply[in.skip:] }

func (in *Inbox) message(subject, reply string, data []byte) *nats.Msg {
	header := nats.Header{subjects.HeaderAnswer: {in.word(reply)}}
	in.Vouch(header)
	return &nats.Msg{Subject: subject, Reply: reply, Header: header, Data: data}
}

// Vouch adds the current token, if there is one, to the header of a message.
func (in *Inbox) Vouch(h nats.Header) {
	if in.Token == nil {
		return
	}
	if token := in.Token(); token != "" {
		h[subjects.HeaderToken] = []string{token}
	}
}

// Drop removes a reply subject of [Inbox.Open]. Later messages on it are dropped.
func (in *Inbox) Drop(reply string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.waiting, in.token(reply))
}

// statusNoResponders is the status with which the server reports that the subject of a request has no subscriber.
const statusNoResponders = "503"

// ErrClosed means that the inbox is closed and can no longer receive answers.
var ErrClosed = errors.New("the client is closed")

// Request sends a request and returns the first answer. It returns nats.ErrNoResponders if the subject has no
// subscriber, and the error of ctx when that ends.
func (in *Inbox) Request(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	return in.request(ctx, nil, func(reply string) *nats.Msg { return in.message(subject, reply, data) })
}

// request sends the message that compose returns for a reply subject, and returns the first answer. Until then it
// sends a new one after each of the pauses, and then again and again after the last of them; never without any.
func (in *Inbox) request(
	ctx context.Context, pauses []time.Duration, compose func(reply string) *nats.Msg,
) (*nats.Msg, error) {
	if !in.subs[0].IsValid() && !in.NC.IsClosed() {
		return nil, ErrClosed
	}
	answer := make(chan *nats.Msg, 1)
	reply := in.Open(func(msg *nats.Msg) {
		select {
		case answer <- msg:
		default:
		}
	})
	defer in.Drop(reply)
	sent := make(chan error, 1)
	send := func() { go func() { sent <- in.NC.PublishMsg(compose(reply)) }() } // may end after ctx
	var again <-chan time.Time                                                  // nil while a message is being sent
	for send(); ; {
		select {
		case err := <-sent:
			if err != nil {
				return nil, err
			}
			if len(pauses) > 0 {
				again, pauses = time.After(pauses[0]), pauses[min(1, len(pauses)-1):]
			}
		case <-again:
			again = nil
			send()
		case msg := <-answer:
			if len(msg.Data) == 0 && msg.Header.Get("Status") == statusNoResponders {
				return nil, nats.ErrNoResponders
			}
			return msg, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ErrNoDispatcher means that no dispatcher answers service requests on this bus.
var ErrNoDispatcher = errors.New(
	"no dispatcher is listening on this bus (start one with `toolbus dev` or `dispatcher`; if one runs, it has stopped " +
		"admission: its log and `toolbus doctor`, on a bus with tokens with --secrets-dir DIR, say why)")

// askTime is how long to wait for an answer if ctx has no deadline.
const askTime = 5 * time.Second

// askAgain returns the pauses after which a request without an answer is sent again, by the size of its body: the
// dispatcher that got it may be suspended, or the request or its answer lost. The server chooses a dispatcher at
// random, so a small request meets one that is not suspended soon. A large one must not fill a slow connection.
func askAgain(bytes int) []time.Duration {
	if bytes > largeQuestion {
		return []time.Duration{400 * time.Millisecond}
	}
	return []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}
}

// largeQuestion is the size of a body, in bytes, above which it is sent again less often.
const largeQuestion = 16 << 10

// Ask sends a request for the service operation op with the body q, and decodes the answer into answer. It returns the
// refusal of the service, if there is one, or an error if there is no answer: [ErrNoDispatcher], or that of ctx.
// Without a deadline of ctx it waits 5 s.
func (in *Inbox) Ask(ctx context.Context, op string, q, answer any) (*envelope.Error, error) {
	_, refusal, err := in.AskRaw(ctx, op, q, answer)
	return refusal, err
}

// ErrNotStored means that the replica which read the stream for an answer does not have the message.
var ErrNotStored = errors.New("the message is not stored")

// AskRaw is [Inbox.Ask] for a request that the server may answer with a stored message. It returns the body of that
// message, or [ErrNotStored]. If the dispatcher answers itself, raw is nil and the answer is decoded into answer.
func (in *Inbox) AskRaw(ctx context.Context, op string, q, answer any) (raw []byte, _ *envelope.Error, _ error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, askTime)
		defer cancel()
	}
	raw, refusal, err := in.ask(ctx, subjects.Service(op, in.Tenant, in.Actor), q, answer)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", op, err)
	}
	return raw, refusal, nil
}

func (in *Inbox) ask(ctx context.Context, subject string, q, answer any) ([]byte, *envelope.Error, error) {
	data, err := format.Marshal(format.Message, q)
	if err != nil {
		return nil, nil, err
	}
	msg, err := in.askInTime(ctx, subject, data)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, nil, ErrNoDispatcher
	case err != nil:
		if forbidden := in.Forbidden(subject); forbidden != nil {
			return nil, nil, forbidden
		}
		return nil, nil, err
	case msg.Header[jetstream.SequenceHeader] != nil:
		return msg.Data, nil, nil
	case len(msg.Data) == 0 && msg.Header.Get("Status") != "":
		return nil, nil, ErrNotStored
	case msg.Header.Get(subjects.HeaderKind) == envelope.KindRefusal:
		refused := envelope.ServiceRefusal{Refusal: new(envelope.Error)}
		return nil, refused.Refusal, format.Unmarshal(format.Message, msg.Data, &refused)
	}
	return nil, nil, format.Unmarshal(format.Message, msg.Data, answer)
}

// askInTime sends a service request, and returns the first answer. If that is a refusal and shows that the estimate of
// bus time was wrong, it sends the request again: the dispatcher may have taken it for one that is late.
func (in *Inbox) askInTime(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	id := rand.Text()
	for {
		began := time.Now()
		msg, err := in.request(ctx, askAgain(len(data)), func(reply string) *nats.Msg {
			msg := in.message(subject, reply, data)
			msg.Header[subjects.HeaderRequest] = []string{id}
			if deadline, ok := ctx.Deadline(); ok {
				in.clock.limit(msg.Header, deadline)
			}
			return msg
		})
		if err != nil || !in.clock.learn(msg.Header, began, time.Now()) ||
			msg.Header.Get(subjects.HeaderKind) != envelope.KindRefusal {
			return msg, err
		}
	}
}

// AskAll sends a request that every dispatcher answers, and calls take with the body of each answer that is not a
// refusal. It waits first for the first answer and more for each further one, and returns nil after such a wait
// without an answer.
func (in *Inbox) AskAll(ctx context.Context, op string, first, more time.Duration, take func(body []byte)) error {
	answers := make(chan *nats.Msg, 100)
	reply := in.Open(func(msg *nats.Msg) {
		select {
		case answers <- msg:
		default: // no caller needs more answers
		}
	})
	defer in.Drop(reply)
	body, err := format.Marshal(format.Message, struct{}{})
	if err == nil {
		err = in.NC.PublishMsg(in.message(subjects.Service(op, in.Tenant, in.Actor), reply, body))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	quiet := time.NewTimer(first)
	defer quiet.Stop()
	for {
		select {
		case msg := <-answers:
			if msg.Header.Get(subjects.HeaderKind) == envelope.KindOutcome {
				take(msg.Data)
			}
			quiet.Reset(more)
		case <-quiet.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
