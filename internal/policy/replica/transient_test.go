package replica

import (
	"context"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// blinking is a stream that does not find the newest message of a subject for some questions.
type blinking struct {
	jetstream.Stream
	blind int // of the next questions
}

func (b *blinking) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	if b.blind--; b.blind >= 0 {
		return nil, jetstream.ErrMsgNotFound
	}
	return b.Stream.GetLastMsgForSubject(ctx, subject)
}

// An entry that a busy server does not find for a moment is neither damaged nor lost: its copy stays, and so does it.
func TestNotFoundForAMoment(t *testing.T) {
	b := bustest.Start(t)
	copies, err := OpenCopies(t.Context(), b.JS, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := OpenBucket(t.Context(), b.JS, subjects.ControlStream, copies)
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.Create(t.Context(), &nats.Msg{Subject: subjects.Locks, Data: []byte(`{"locks":[]}`)}); err != nil {
		t.Fatal(err)
	}
	before, _, err := bucket.Find(t.Context(), subjects.Locks)
	if err != nil {
		t.Fatal(err)
	}
	whole := bucket.stream
	for blind := 1; blind <= 2; blind++ {
		bucket.stream = &blinking{whole, blind}
		if msg, held, err := bucket.Find(t.Context(), subjects.Locks); err != nil || held || msg.Sequence != before.Sequence {
			t.Errorf("not found %d times: %v, held %t, %v", blind, msg, held, err)
		}
	}
	bucket.stream = whole
	after, held, err := bucket.Find(t.Context(), subjects.Locks)
	if err != nil || held || after.Sequence != before.Sequence || len(copies.Damaged()) > 0 {
		t.Errorf("the entry is %v, held %t, %v; found damaged: %v", after, held, err, copies.Damaged())
	}
}

type words struct {
	Text string `json:"text"`
}

// A lock that was set while the leader of the bucket could not read the entry is only in the copy. Once another server
// leads the bucket, it is in force also where the entry was compared with its copy before.
func TestChangeOfTheCopyAlone(t *testing.T) {
	b := bustest.Start(t)
	copies, err := OpenCopies(t.Context(), b.JS, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	open := func() *Replica[words] {
		r, err := Open[words](t.Context(), b.JS, subjects.ControlStream, "words", nil, copies)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open()
	first, err := r.Replace(t.Context(), subjects.Locks, words{"first"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := r.Ask(t.Context(), subjects.Locks); err != nil || e.Value.Text != "first" {
		t.Fatal(e, err)
	}
	blind := open()
	blind.stream = &blinking{blind.stream, 1 << 20}
	more := func(before Entry[words]) (words, error) { return words{before.Value.Text + " more"}, nil }
	if e, _, err := blind.Change(t.Context(), subjects.Locks, more, nil); err != nil || !e.Held {
		t.Fatal(e, err)
	}
	if e, err := r.Ask(t.Context(), subjects.Locks); err != nil || e.Value.Text != "first more" {
		t.Errorf("%+v, %v", e, err)
	}
	e, _, err := r.Change(t.Context(), subjects.Locks, more, nil)
	if err != nil || e.Value.Text != "first more more" || e.Held || e.Revision <= first.Revision {
		t.Errorf("%+v, %v", e, err)
	}
}
