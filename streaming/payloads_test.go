package streaming

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

const maxPayload = 4 << 20

var mine = subjects.Owner{Tenant: "acme", Actor: "agent://me"}.On("default")

// newPayloads returns payloads over a stream as the topology makes it.
func newPayloads(t testing.TB) (*natstest.Server, jetstream.Stream, *Payloads) {
	t.Helper()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	stream, err := js.CreateStream(testContext(t), jetstream.StreamConfig{
		Name:              "PAYLOADS",
		Subjects:          []string{"tb.payload.>"},
		MaxMsgsPerSubject: 1,
		AllowDirect:       true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return srv, stream, NewPayloads(NewStore(js, "PAYLOADS"), maxPayload)
}

// content is n bytes that differ from part to part.
func content(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i / 1000)
	}
	return data
}

func TestPayloadsRoundTrip(t *testing.T) {
	t.Parallel()
	_, stream, p := newPayloads(t)
	ctx := testContext(t)
	stored := uint64(0)
	for _, n := range []int{0, 1, partSize - 1, partSize, partSize + 1, 3*partSize + 7, maxPayload} {
		t.Run(fmt.Sprintf("%d bytes", n), func(t *testing.T) {
			data := content(n)
			for range 2 { // the second time changes nothing
				ref, err := p.Put(ctx, mine, data)
				if err != nil || ref.Bytes != int64(n) {
					t.Fatalf("%+v, %v", ref, err)
				}
				if got, err := p.Get(ctx, mine, ref); err != nil || !bytes.Equal(got, data) {
					t.Fatalf("%d bytes, %v", len(got), err)
				}
			}
			stored += uint64((n + partSize - 1) / partSize)
			if info, err := stream.Info(ctx); err != nil || info.State.Msgs != stored {
				t.Fatalf("%d messages instead of %d, %v", info.State.Msgs, stored, err)
			}
		})
	}
}

func TestPayloadsRefuse(t *testing.T) {
	t.Parallel()
	_, stream, p := newPayloads(t)
	ctx := testContext(t)
	ref, err := p.Put(ctx, mine, content(2*partSize))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Put(ctx, mine, content(maxPayload+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("put: %v", err)
	}
	other := ref
	other.SHA256 = "a" + ref.SHA256[1:]
	for _, row := range []struct {
		name string
		ref  envelope.PayloadRef
		want error
	}{
		{"too large", envelope.PayloadRef{SHA256: ref.SHA256, Bytes: maxPayload + 1}, ErrTooLarge},
		{"negative", envelope.PayloadRef{SHA256: ref.SHA256, Bytes: -1}, ErrReference},
		{"no hash", envelope.PayloadRef{Bytes: 5}, ErrReference},
		{"short hash", envelope.PayloadRef{SHA256: ref.SHA256[:62], Bytes: 5}, ErrReference},
		{"upper case", envelope.PayloadRef{SHA256: "A" + ref.SHA256[1:], Bytes: 5}, ErrReference},
		{"wildcard", envelope.PayloadRef{SHA256: "*", Bytes: 5}, ErrReference},
		{"never stored", other, ErrMissing},
		{"shorter than stored", envelope.PayloadRef{SHA256: ref.SHA256, Bytes: ref.Bytes - 1}, ErrChecksum},
		{"longer than stored", envelope.PayloadRef{SHA256: ref.SHA256, Bytes: ref.Bytes + 1}, ErrMissing},
		{"empty with a hash", envelope.PayloadRef{SHA256: ref.SHA256}, ErrChecksum},
	} {
		if got, err := p.Get(ctx, mine, row.ref); !errors.Is(err, row.want) || got != nil {
			t.Errorf("%s: %v", row.name, err)
		}
	}

	tamper := func(part int64, data []byte, want error) {
		t.Helper()
		if err := p.putPart(ctx, mine.Payload(ref.SHA256, part), data, true); err != nil {
			t.Fatal(err)
		}
		got, err := p.Get(ctx, mine, ref)
		if !errors.Is(err, want) || got != nil {
			t.Errorf("%v", err)
		}
		if of, ok := errors.AsType[interface {
			error
			Fault() *envelope.Error
		}](err); !ok || of.Fault().Code != envelope.CodeChecksum {
			t.Errorf("no place in the taxonomy: %v", err)
		}
	}
	tamper(1, make([]byte, partSize), ErrChecksum)
	tamper(1, []byte("short"), ErrChecksum)
	tamper(0, make([]byte, partSize+1), ErrChecksum)
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(mine.Payload(ref.SHA256, 0))); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(ctx, mine, ref); !errors.Is(err, ErrMissing) {
		t.Errorf("half expired: %v", err)
	}
	// Putting it again repairs it.
	if _, err := p.Put(ctx, mine, content(2*partSize)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(ctx, mine, ref); err != nil {
		t.Error(err)
	}
}

// Putting content again never disturbs its readers.
func TestPayloadsConcurrent(t *testing.T) {
	t.Parallel()
	_, _, p := newPayloads(t)
	ctx, data := testContext(t), content(2*partSize+1)
	ref, err := p.Put(ctx, mine, data)
	if err != nil {
		t.Fatal(err)
	}
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 10 {
				if _, err := p.Put(ctx, mine, data); err != nil {
					t.Error(err)
				}
			}
		})
		workers.Go(func() {
			for range 10 {
				if _, err := p.Get(ctx, mine, ref); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
}

// While the server is away, Put and Get wait for it.
func TestPayloadsSurviveRestart(t *testing.T) {
	t.Parallel()
	srv, _, p := newPayloads(t)
	ctx := testContext(t)
	ref, err := p.Put(ctx, mine, content(partSize+1))
	if err != nil {
		t.Fatal(err)
	}
	srv.Stop()
	short, cancel := context.WithTimeout(ctx, 1)
	defer cancel()
	if _, err := p.Put(short, mine, content(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("put: %v", err)
	}
	if _, err := p.Get(short, mine, ref); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("get: %v", err)
	}
	srv.Restart()
	if _, err := p.Put(ctx, mine, content(1)); err != nil {
		t.Error(err)
	}
	if _, err := p.Get(ctx, mine, ref); err != nil {
		t.Error(err)
	}
}
