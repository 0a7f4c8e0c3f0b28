package streaming

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// headroom is the number of bytes that a message needs in addition to its body: its headers, and those that a direct
// get or a service adds.
const headroom = 4 << 10

// ErrUnavailable means that the store did not answer in time; asking again may help.
var ErrUnavailable = errors.New("streaming: store unavailable")

// Store reads and writes one stream: it appends by compare-and-set, and reads by subject and sequence. Make one with
// [NewStore]. It is safe for concurrent use, and needs no Close.
type Store struct {
	js      jetstream.JetStream
	stream  string
	prefix  string // of the JetStream API
	through Newest // reads on behalf of this process; nil reads the stream directly
}

// NewStore returns a Store for the stream of that name, which must exist. If the stream allows direct gets, the Store
// reads from any replica, and asks the leader if the replica does not have the message.
func NewStore(js jetstream.JetStream, stream string) *Store {
	prefix := jetstream.DefaultAPIPrefix
	switch o := js.Options(); {
	case o.APIPrefix != "":
		prefix = strings.TrimSuffix(o.APIPrefix, ".") + "."
	case o.Domain != "":
		prefix = "$JS." + o.Domain + ".API."
	}
	return &Store{js: js, stream: stream, prefix: prefix}
}

// Newest returns the newest message of a stream with the subject, or nil if the stream has none.
type Newest func(ctx context.Context, subject string) (*Message, error)

// Through returns a Store for a process that may not read the stream. It reads with the function read, which for
// example asks a dispatcher. Such a Store suits a [Writer] and [Payloads], not a [StoreSource].
func (s *Store) Through(read Newest) *Store {
	asking := *s
	asking.through = read
	return &asking
}

// Message is one stored message with its stream sequence.
type Message struct {
	Sequence uint64
	Header   nats.Header
	Data     []byte
}

// maxFrame implements frameLog.
func (s *Store) maxFrame() int {
	return min(maxBody, int(s.js.Conn().MaxPayload())) - headroom
}

// append implements frameLog.
func (s *Store) append(ctx context.Context, subject string, f Frame, by author, prev uint64) (uint64, error) {
	msg := &nats.Msg{
		Subject: subject,
		Header: nats.Header{
			HeaderForm:     {strconv.Itoa(format.Frame.Current())},
			HeaderChunks:   {f.indexes()},
			HeaderNonce:    {by.nonce},
			headerExpected: {strconv.FormatUint(prev, 10)},
		},
		Data: f.body,
	}
	if by.proof != "" {
		msg.Header[HeaderProof] = []string{by.proof}
	}
	return s.publish(ctx, msg)
}

// publish sends msg once. The error is errRefused if sending msg again cannot succeed.
func (s *Store) publish(ctx context.Context, msg *nats.Msg) (uint64, error) {
	msg.Header.Set(jetstream.ExpectedStreamHeader, s.stream)
	ack, err := bus.Publish(ctx, s.js, msg, maxTry)
	if err == nil {
		return ack.Sequence, nil
	}
	if definite(err) {
		return 0, fmt.Errorf("%w: %w", errRefused, err)
	}
	return 0, err
}

// definite reports whether err means that sending the message again cannot succeed: it is too large or has a wrong
// subject, another stream has the subject, or the connection is closed.
func definite(err error) bool {
	if bus.IsAnswered(err) {
		return bus.HasErrorCode(err, bus.CodeMessageTooLarge, bus.CodeOtherStream, bus.CodeHeaderTooLarge)
	}
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed) ||
		errors.Is(err, nats.ErrBadSubject)
}

// last implements frameLog.
func (s *Store) last(ctx context.Context, subject string) (mark, error) {
	m, err := s.Last(ctx, subject)
	if err != nil || m == nil {
		return mark{}, err
	}
	// A malformed frame comes from another process. The caller sees that by its nonce.
	f, _ := ParseFrame(m.Header, m.Data)
	return mark{sequence: m.Sequence, nonce: m.Header.Get(HeaderNonce), frame: f}, nil
}

// Last returns the newest message with the subject, or nil if there is none. It asks the leader of the stream, because
// a replica may not have the message yet. It tries once.
func (s *Store) Last(ctx context.Context, subject string) (*Message, error) {
	if s.through != nil {
		return s.through(ctx, subject)
	}
	return s.leader(ctx, getRequest{LastFor: subject})
}

// newest is [Store.Last], but asks any replica first.
func (s *Store) newest(ctx context.Context, subject string) (*Message, error) {
	if s.through != nil {
		return s.through(ctx, subject)
	}
	return s.get(ctx, getRequest{LastFor: subject})
}

// next returns the first message with the subject at or after sequence, or nil if there is none.
func (s *Store) next(ctx context.Context, subject string, sequence uint64) (*Message, error) {
	return s.get(ctx, getRequest{Sequence: max(sequence, 1), NextFor: subject})
}

// get asks any replica, and then the leader if the replica does not have the message.
func (s *Store) get(ctx context.Context, req getRequest) (*Message, error) {
	m, err := s.direct(ctx, req)
	if err != nil || m == nil {
		return s.leader(ctx, req)
	}
	return m, nil
}

// getRequest is the request of both message get APIs.
type getRequest struct {
	Sequence uint64 `json:"seq,omitzero"`
	LastFor  string `json:"last_by_subj,omitzero"`
	NextFor  string `json:"next_by_subj,omitzero"`
}

// GetNewest returns the subject and body of a request for the newest message with the subject. Any replica of the
// stream answers it, with the message or with a status if it does not have it. The request is for the default JetStream
// API prefix, without a domain.
func GetNewest(stream, subject string) (to string, body []byte) {
	body, _ = json.Marshal(getRequest{LastFor: subject}) // never fails
	return subjects.DirectGet(stream), body
}

// direct asks any replica. It returns nil if the replica does not have the message.
func (s *Store) direct(ctx context.Context, req getRequest) (*Message, error) {
	reply, err := s.request(ctx, "DIRECT.GET.", req)
	if err != nil {
		return nil, err
	}
	sequence, err := strconv.ParseUint(reply.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return nil, nil // the replica answered with a status
	}
	return &Message{Sequence: sequence, Header: reply.Header, Data: reply.Data}, nil
}

// getResponse is the answer of the leader.
type getResponse struct {
	Message *struct {
		Sequence uint64 `json:"seq"`
		Header   []byte `json:"hdrs"`
		Data     []byte `json:"data"`
	} `json:"message"`
	Error *jetstream.APIError `json:"error"`
}

// leader asks the leader of the stream. It returns nil if there is no such message.
func (s *Store) leader(ctx context.Context, req getRequest) (*Message, error) {
	reply, err := s.request(ctx, "STREAM.MSG.GET.", req)
	if err != nil {
		return nil, err
	}
	var r getResponse
	if err := json.Unmarshal(reply.Data, &r); err != nil {
		return nil, fmt.Errorf("%w: message get: %w", ErrUnavailable, err)
	}
	if r.Error != nil && r.Error.ErrorCode == bus.CodeNotFound {
		return nil, nil
	}
	if r.Error != nil {
		return nil, fmt.Errorf("%w: message get: %w", ErrUnavailable, r.Error)
	}
	if r.Message == nil {
		return nil, fmt.Errorf("%w: message get: empty answer", ErrUnavailable)
	}
	m := &Message{Sequence: r.Message.Sequence, Data: r.Message.Data}
	if len(r.Message.Header) > 0 {
		m.Header, err = nats.DecodeHeadersMsg(r.Message.Header)
	}
	return m, err
}

// request sends a request to the API once, and waits at most maxTry: the request may be lost with the connection.
func (s *Store) request(ctx context.Context, api string, req getRequest) (*nats.Msg, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxTry)
	defer cancel()
	done, err := bus.BeginRead(ctx, s.js)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer done()
	reply, err := s.js.Conn().RequestWithContext(ctx, s.prefix+api+s.stream, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return reply, nil
}
