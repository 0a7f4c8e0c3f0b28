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
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Inbox hears the answers to one actor, or to one executor. They come below the prefix of that actor or executor:
// responders answer nowhere else. Its methods are safe for concurrent use.
type Inbox struct {
	Tenant, Actor string
	NC            *nats.Conn
	// Token returns the token that a message carries, now; nil and "" are none.
	Token func() string

	prefix string // of reply subjects
	skip   int    // bytes of a reply subject before the word that responders need
	subs   []*nats.Subscription

	mu      sync.Mutex
	waiting map[string]func(*nats.Msg) // by last token
	words   *chacha.ChaCha8
}

// NewInbox returns an inbox of the actor over nc, which stays the caller's. Close it when done. Its reply subjects are
// below [subjects.Answers] of the actor and the further tokens: the holder of a bound token hears nothing but what is
// below its family.
func NewInbox(nc *nats.Conn, tenant, actor string, further ...string) (*Inbox, error) {
	own := subjects.Answers(tenant, actor)
	prefix := own + strings.Join(append(further, rand.Text()), ".") + "."
	in := &Inbox{Tenant: tenant, Actor: actor, NC: nc, prefix: prefix, skip: len(own)}
	return in, in.listen(in.prefix)
}

// Inbox returns an inbox for the questions of an executor to dispatchers. Close it when done. Dispatchers of f16d274,
// and those that run with --older-builds, answer at the reply subject; the others below [subjects.ExecutorAnswers]. The
// inbox hears both, under the same word.
func (c *Control) Inbox(pool, instance string) (*Inbox, error) {
	in := &Inbox{NC: c.NC, prefix: c.NC.NewInbox() + "."}
	in.skip = len(in.prefix)
	return in, in.listen(in.prefix, subjects.ExecutorAnswers(pool, instance))
}

// listen subscribes to one token below each prefix.
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

// Close ends it: nothing more is heard.
func (in *Inbox) Close() (err error) {
	for _, sub := range in.subs {
		err = errors.Join(err, sub.Unsubscribe())
	}
	return err
}

// receive hands an answer to whoever waits for it. Answers to nobody are dropped: every answer may come twice.
func (in *Inbox) receive(msg *nats.Msg) {
	in.mu.Lock()
	take := in.waiting[in.token(msg.Subject)]
	in.mu.Unlock()
	if take != nil {
		take(msg)
	}
}

func (in *Inbox) token(reply string) string { return reply[strings.LastIndexByte(reply, '.')+1:] }

// words returns the source of the words of an inbox.
func words() *chacha.ChaCha8 {
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails
	return chacha.NewChaCha8(seed)
}

// Open returns a fresh reply subject. Whoever answers a call learns its own, and must not guess that of any other: it
// ends with 64 bits of a stream cipher under a random key, which cost a few nanoseconds. What comes there is given to
// take, one message after the other of all that the inbox hears, so take must not wait. Drop the subject when no more
// answers are wanted.
func (in *Inbox) Open(take func(*nats.Msg)) (reply string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	reply = string(strconv.AppendUint(append(make([]byte, 0, 192), in.prefix...), in.words.Uint64(), 36))
	in.waiting[reply[len(in.prefix):]] = take
	return reply
}

// word is what stands in a reply subject of [Inbox.Open] behind the prefix of the actor: questions say it in
// [subjects.HeaderAnswer], too, since the server replaces their reply subjects between accounts.
func (in *Inbox) word(reply string) string { return reply[in.skip:] }

func (in *Inbox) message(subject, reply string, data []byte) *nats.Msg {
	header := nats.Header{subjects.HeaderAnswer: {in.word(reply)}}
	in.Vouch(header)
	return &nats.Msg{Subject: subject, Reply: reply, Header: header, Data: data}
}

// Vouch puts the token into the header of a message.
func (in *Inbox) Vouch(h nats.Header) {
	if in.Token == nil {
		return
	}
	if token := in.Token(); token != "" {
		h[subjects.HeaderToken] = []string{token}
	}
}

// Drop forgets a reply subject.
func (in *Inbox) Drop(reply string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.waiting, in.token(reply))
}

// statusNoResponders is the server's word that nobody listens on the subject of a request.
const statusNoResponders = "503"

// ErrClosed means that an answer could not be heard any more.
var ErrClosed = errors.New("the client is closed")

// Request sends a request and returns its answer, or the error of ctx when that ends.
func (in *Inbox) Request(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
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
	go func() { sent <- in.NC.PublishMsg(in.message(subject, reply, data)) }() // ends when the connection lets go of it
	for {
		select {
		case err := <-sent:
			if err != nil {
				return nil, err
			}
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

// ErrNoDispatcher means that no dispatcher answers questions on this bus.
var ErrNoDispatcher = errors.New(
	"no dispatcher is listening on this bus (start one with `toolbus dev` or `dispatcher`)")

// askTime is how long an answer is waited for where ctx has no deadline.
const askTime = 5 * time.Second

// Ask asks the service one question and decodes the answer. It returns what the service refuses with, if it does.
func (in *Inbox) Ask(ctx context.Context, op string, q, answer any) (*envelope.Error, error) {
	_, refusal, err := in.AskRaw(ctx, op, q, answer)
	return refusal, err
}

// ErrNotStored means that the server has no such message, as far as the replica knows that it has asked.
var ErrNotStored = errors.New("the message is not stored")

// AskRaw is Ask for a question that the server answers with a stored message: it returns the body of that. If the
// dispatcher answers by itself, raw is nil and the answer is decoded.
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
	msg, err := in.Request(ctx, subject, data)
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

// AskAll asks a question that every dispatcher answers, and tells take of each answer, until none has come for a
// while: first for the first one, then for each more.
func (in *Inbox) AskAll(ctx context.Context, op string, first, more time.Duration, take func(body []byte)) error {
	answers := make(chan *nats.Msg, 100)
	reply := in.Open(func(msg *nats.Msg) {
		select {
		case answers <- msg:
		default: // more than anybody compares
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
