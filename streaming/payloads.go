package streaming

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Errors of [Payloads].
var (
	// ErrMissing means that the payload is not stored: it never was, or it has expired.
	ErrMissing = errors.New("streaming: payload is missing")
	// ErrChecksum means that the stored bytes do not have the size or SHA-256 of the reference. It implements
	// [envelope.Fault].
	ErrChecksum error = known{envelope.CodeChecksum, "streaming: payload does not match its checksum"}
	// ErrTooLarge means that the payload exceeds the limit of the [Payloads].
	ErrTooLarge = errors.New("streaming: payload too large")
	// ErrFull means that the stream is full.
	ErrFull = errors.New("streaming: the payload store is full")
	// ErrReference means that the reference is malformed.
	ErrReference = errors.New("streaming: malformed payload reference")
)

// known is an error with a code of the error taxonomy.
type known struct {
	code envelope.Code
	text string
}

func (k known) Error() string { return k.text }

// Fault implements [envelope.Fault].
func (k known) Fault() *envelope.Error { return envelope.NewError(k.code, "") }

// partSize is the size of the parts of a payload, each of which is one message. Changing it makes stored payloads
// unreadable.
const partSize = 512 << 10

// Payloads stores large payloads in a stream, under their owner and their SHA-256, in parts of 512 KiB with the
// subjects of [subjects.PayloadOwner.Payload]. It reads only by subject, so that server permissions can restrict whose
// payloads a connection may store and read.
//
// The stream keeps one message per subject, for a fixed time. So storing the same content again takes no more room and
// renews its expiry, and does not disturb readers. Each part costs one request; up to four parts of a payload are
// transferred at once. Payloads is safe for concurrent use.
type Payloads struct {
	store    *Store
	maxBytes int64
}

// window is the number of parts of one payload that are transferred at once. It hides the round trips, and bounds the
// memory that each process on the way needs.
const window = 4

// NewPayloads returns a Payloads over store, whose stream must keep one message per subject. maxBytes is the largest
// size of one payload.
func NewPayloads(store *Store, maxBytes int64) *Payloads {
	return &Payloads{store: store, maxBytes: maxBytes}
}

// Put stores data and returns its reference. It tries until ctx ends, even while the stream is full. It returns
// [ErrTooLarge] at once.
func (p *Payloads) Put(ctx context.Context, of subjects.PayloadOwner, data []byte) (envelope.PayloadRef, error) {
	return p.put(ctx, of, data, true)
}

// PutNow is [Payloads.Put], but returns [ErrFull] at once if the stream is full.
func (p *Payloads) PutNow(ctx context.Context, of subjects.PayloadOwner, data []byte) (envelope.PayloadRef, error) {
	return p.put(ctx, of, data, false)
}

func (p *Payloads) put(
	ctx context.Context, of subjects.PayloadOwner, data []byte, patient bool,
) (envelope.PayloadRef, error) {
	if int64(len(data)) > p.maxBytes {
		return envelope.PayloadRef{}, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), p.maxBytes)
	}
	sum := sha256.Sum256(data)
	ref := envelope.PayloadRef{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(data)), Pool: of.Pool}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(window)
	for part := range parts(ref) {
		from := part * partSize
		to := min(from+partSize, ref.Bytes)
		g.Go(func() error { return p.putPart(ctx, of.Payload(ref.SHA256, part), data[from:to], patient) })
	}
	if err := g.Wait(); err != nil {
		return envelope.PayloadRef{}, err
	}
	return ref, nil
}

func (p *Payloads) putPart(ctx context.Context, subject string, data []byte, patient bool) error {
	return untilDone(ctx, func(ctx context.Context) error {
		_, err := p.store.publish(ctx, &nats.Msg{Subject: subject, Header: nats.Header{}, Data: data})
		if !patient && bus.HasErrorCode(err, bus.CodeStoreFailed) {
			return fmt.Errorf("%w: %w: %w", errRefused, ErrFull, err)
		}
		return err
	})
}

// PutPart stores one part, of at most 512 KiB, under a subject of [subjects.PayloadOwner.Payload]. It tries once, and
// returns the stream sequence of the part. If the server refuses the part, or the part is too large, the error wraps a
// [jetstream.APIError].
func (p *Payloads) PutPart(ctx context.Context, subject string, data []byte) (uint64, error) {
	if len(data) > partSize {
		return 0, &jetstream.APIError{
			Code: 400, ErrorCode: bus.CodeMessageTooLarge, Description: fmt.Sprintf("a part has at most %d bytes", partSize),
		}
	}
	return p.store.publish(ctx, &nats.Msg{Subject: subject, Header: nats.Header{}, Data: data})
}

// Get returns the payload of the owner of that ref names, and verifies its size and SHA-256. It needs about twice the
// memory of the payload. It tries until ctx ends. The error is [ErrMissing], [ErrChecksum], [ErrTooLarge] or
// [ErrReference] if another try would not help.
func (p *Payloads) Get(ctx context.Context, of subjects.PayloadOwner, ref envelope.PayloadRef) ([]byte, error) {
	return Collect(ctx, ref, p.maxBytes, func(ctx context.Context, part int64) ([]byte, error) {
		return p.Part(ctx, of, ref.SHA256, part)
	})
}

// Collect returns the payload that ref names, and verifies its size and SHA-256. A payload of more than most bytes is
// [ErrTooLarge]. Collect calls get for each part, for up to four parts at once. After an error of get it returns that
// error and starts no further calls.
func Collect(
	ctx context.Context, ref envelope.PayloadRef, most int64,
	get func(ctx context.Context, part int64) ([]byte, error),
) ([]byte, error) {
	sum, err := hex.DecodeString(ref.SHA256)
	switch {
	case err != nil || len(sum) != sha256.Size || hex.EncodeToString(sum) != ref.SHA256 || ref.Bytes < 0:
		return nil, fmt.Errorf("%w: %.80q, %d bytes", ErrReference, ref.SHA256, ref.Bytes)
	case ref.Bytes > most:
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, ref.Bytes, most)
	}
	data, got, err := collect(ctx, ref, get)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != ref.Bytes || got != [sha256.Size]byte(sum) {
		return nil, fmt.Errorf("%w: %s", ErrChecksum, ref.SHA256)
	}
	return data, nil
}

// fetched is the result of a call of get.
type fetched struct {
	body []byte
	err  error
}

// collect gets all parts. It hashes each part when it arrives, while it is still in the CPU cache. It allocates memory
// for the whole payload when the first part has arrived.
func collect(
	ctx context.Context, ref envelope.PayloadRef, get func(ctx context.Context, part int64) ([]byte, error),
) (data []byte, sum [sha256.Size]byte, err error) {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	var coming []chan fetched // one for each part that is being fetched, in order
	hash, next := sha256.New(), int64(0)
	for part := range parts(ref) {
		for ; next < parts(ref) && len(coming) < window; next++ {
			came, at := make(chan fetched, 1), next
			coming = append(coming, came)
			all.Go(func() {
				body, err := get(ctx, at)
				came <- fetched{body, err}
			})
		}
		f := <-coming[0]
		if coming = coming[1:]; f.err != nil {
			return nil, sum, f.err
		}
		if len(f.body) > partSize || int64(len(data)+len(f.body)) > ref.Bytes {
			return nil, sum, fmt.Errorf("%w: %s, part %d", ErrChecksum, ref.SHA256, part)
		}
		if data == nil {
			data = make([]byte, 0, ref.Bytes)
		}
		data = append(data, f.body...)
		hash.Write(f.body)
	}
	return data, [sha256.Size]byte(hash.Sum(nil)), nil
}

// Part returns one part of a payload of an owner as it is stored. sha256 is the hash of the whole payload in
// hexadecimal; Part does not verify it. It tries until ctx ends. If the part is not stored, the error is [ErrMissing].
func (p *Payloads) Part(ctx context.Context, of subjects.PayloadOwner, sha256 string, part int64) (body []byte,
	err error) {
	subject := of.Payload(sha256, part)
	err = untilDone(ctx, func(ctx context.Context) error {
		m, err := p.Newest(ctx, subject)
		if err == nil && m == nil {
			err = fmt.Errorf("%w: %s", ErrMissing, subject)
		}
		if err == nil {
			body = m.Data
		}
		return err
	})
	return body, err
}

// Newest reads the part with a subject of [subjects.PayloadOwner.Payload]. It tries once, and returns nil if the part
// is not stored.
func (p *Payloads) Newest(ctx context.Context, subject string) (*Message, error) {
	return p.store.newest(ctx, subject)
}

func parts(ref envelope.PayloadRef) int64 { return (ref.Bytes + partSize - 1) / partSize }
