package streaming

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/jscode"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// What can be wrong with a payload.
var (
	// ErrMissing means that the payload is not stored: never, or no longer.
	ErrMissing = errors.New("streaming: payload is missing")
	// ErrChecksum means that what is stored is not what the reference names. It knows its place in
	// the taxonomy, which executors and dispatchers ask for.
	ErrChecksum error = known{envelope.CodeChecksum, "streaming: payload does not match its checksum"}
	// ErrTooLarge means that the payload exceeds the limit.
	ErrTooLarge = errors.New("streaming: payload too large")
	// ErrFull means that the store has no room.
	ErrFull = errors.New("streaming: the payload store is full")
	// ErrReference means that the reference is malformed.
	ErrReference = errors.New("streaming: malformed payload reference")
)

// known is an error that is one of the taxonomy.
type known struct {
	code envelope.Code
	text string
}

func (k known) Error() string { return k.text }

// Fault returns the error as callers are told it.
func (k known) Fault() *envelope.Error { return envelope.NewError(k.code, "") }

// partSize is how payloads are cut into messages. It is part of the stored form: changing it
// makes stored payloads unreadable.
const partSize = 512 << 10

// Payloads keeps large payloads under their owner and their SHA-256, cut into parts of partSize, as
// [subjects.Shelf.Payload] names them. It is asked for by subject alone, so that permissions can say whose a
// connection may store and read.
//
// The stream keeps one message per subject and drops it some time after it was last put. So
// putting the same content again stores nothing twice and renews its time, readers are never
// disturbed, and a lookup is one message get per part. It is safe for concurrent use.
type Payloads struct {
	store    *Store
	maxBytes int64
	lookup   Lookup
}

// Lookup is what a reader does before it says that a payload is missing, for the replica that was asked may lag.
type Lookup struct {
	// Patience is how long replicas are asked again.
	Patience time.Duration
	// Leader asks the leader of the stream, in a form that permissions cannot scope: only for those that may read all.
	Leader bool
	// Unowned looks where builds before owners were in subjects stored it, too.
	Unowned bool
}

// NewPayloads returns the payloads of a stream that keeps one message per subject. maxBytes bounds
// one payload.
func NewPayloads(store *Store, maxBytes int64, lookup Lookup) *Payloads {
	return &Payloads{store: store, maxBytes: maxBytes, lookup: lookup}
}

// Put stores data and returns its reference. It tries until ctx ends, also while the store is full: what
// is uncertain is simply put again.
func (p *Payloads) Put(ctx context.Context, of subjects.Shelf, data []byte) (envelope.PayloadRef, error) {
	return p.put(ctx, of, data, true)
}

// PutNow is Put for callers that do better than to wait for room: a full store is ErrFull at once.
func (p *Payloads) PutNow(ctx context.Context, of subjects.Shelf, data []byte) (envelope.PayloadRef, error) {
	return p.put(ctx, of, data, false)
}

func (p *Payloads) put(
	ctx context.Context, of subjects.Shelf, data []byte, patient bool,
) (envelope.PayloadRef, error) {
	if int64(len(data)) > p.maxBytes {
		return envelope.PayloadRef{}, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), p.maxBytes)
	}
	sum := sha256.Sum256(data)
	ref := envelope.PayloadRef{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(data)), Pool: of.Pool}
	for part := range parts(ref) {
		from := part * partSize
		to := min(from+partSize, ref.Bytes)
		if err := p.putPart(ctx, of.Payload(ref.SHA256, part), data[from:to], patient); err != nil {
			return envelope.PayloadRef{}, err
		}
	}
	return ref, nil
}

func (p *Payloads) putPart(ctx context.Context, subject string, data []byte, patient bool) error {
	return untilDone(ctx, func(ctx context.Context) error {
		_, err := p.store.publish(ctx, &nats.Msg{Subject: subject, Header: nats.Header{}, Data: data})
		if !patient && jscode.Is(err, jscode.StoreFailed) {
			return fmt.Errorf("%w: %w: %w", errRefused, ErrFull, err)
		}
		return err
	})
}

// Get returns the payload of an owner that ref names, verified. What it came in, as many bytes again, is garbage by
// then.
func (p *Payloads) Get(ctx context.Context, of subjects.Shelf, ref envelope.PayloadRef) ([]byte, error) {
	return p.Collect(ref, func(part int64) ([]byte, error) { return p.Part(ctx, of, ref.SHA256, part) })
}

// Collect returns the payload that ref names, verified, whose parts get has.
func (p *Payloads) Collect(ref envelope.PayloadRef, get func(part int64) ([]byte, error)) ([]byte, error) {
	sum, err := hex.DecodeString(ref.SHA256)
	switch {
	case err != nil || len(sum) != sha256.Size || hex.EncodeToString(sum) != ref.SHA256 || ref.Bytes < 0:
		return nil, fmt.Errorf("%w: %.80q, %d bytes", ErrReference, ref.SHA256, ref.Bytes)
	case ref.Bytes > p.maxBytes:
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, ref.Bytes, p.maxBytes)
	}
	data, got, err := collect(ref, get)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != ref.Bytes || got != [sha256.Size]byte(sum) {
		return nil, fmt.Errorf("%w: %s", ErrChecksum, ref.SHA256)
	}
	return data, nil
}

// collect gets all parts, and hashes them as they come, while they are still in the cache. Memory is allocated once,
// when the first part is there.
func collect(
	ref envelope.PayloadRef, get func(part int64) ([]byte, error),
) (data []byte, sum [sha256.Size]byte, err error) {
	hash := sha256.New()
	for part := range parts(ref) {
		body, err := get(part)
		if err != nil {
			return nil, sum, err
		}
		if len(body) > partSize || int64(len(data)+len(body)) > ref.Bytes {
			return nil, sum, fmt.Errorf("%w: %s, part %d", ErrChecksum, ref.SHA256, part)
		}
		if data == nil {
			data = make([]byte, 0, ref.Bytes)
		}
		data = append(data, body...)
		hash.Write(body)
	}
	return data, [sha256.Size]byte(hash.Sum(nil)), nil
}

// Part returns one part of a payload of an owner as it is stored. The hash, in hex, is the caller's to check.
func (p *Payloads) Part(ctx context.Context, of subjects.Shelf, sha256 string, part int64) ([]byte, error) {
	body, err := p.getPart(ctx, of.Payload(sha256, part))
	if p.lookup.Unowned && errors.Is(err, ErrMissing) {
		return p.getPart(ctx, subjects.PayloadOfNobody(sha256, part))
	}
	return body, err
}

func (p *Payloads) getPart(ctx context.Context, subject string) (body []byte, err error) {
	asked := time.Now()
	err = untilDone(ctx, func(ctx context.Context) error {
		m, err := p.find(ctx, subject)
		switch {
		case err != nil:
			return err
		case m != nil:
			body = m.data
			return nil
		case time.Since(asked) < p.lookup.Patience:
			return errNotYet
		}
		return fmt.Errorf("%w: %s", ErrMissing, subject)
	})
	return body, err
}

// errNotYet is what a replica that may lag does not have.
var errNotYet = errors.New("streaming: payload is not here yet")

// find returns nil where there is no such message.
func (p *Payloads) find(ctx context.Context, subject string) (*message, error) {
	m, err := p.store.lastOf(ctx, subject)
	if p.lookup.Leader && (err != nil || m == nil) {
		return p.store.leader(ctx, getRequest{LastFor: subject})
	}
	return m, err
}

func parts(ref envelope.PayloadRef) int64 { return (ref.Bytes + partSize - 1) / partSize }
