package replica_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// counter is the value of the entries of these tests.
type counter struct {
	N int `json:"n"`
}

func open(t *testing.T, b *bustest.Bus) *replica.Replica[counter] {
	t.Helper()
	r, err := replica.Open(t.Context(), b.JS, subjects.RunsStream, "counter", func(c counter) time.Duration {
		return time.Duration(c.N) * time.Hour
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var subject = subjects.Run("acme", "counter")

func count(e replica.Entry[counter]) (counter, error) {
	before := e.Value
	if before == nil {
		return counter{1}, nil
	}
	return counter{before.N + 1}, nil
}

// An entry is read as it was stored, and with its revision replaced only by who knows the last one.
func TestReplace(t *testing.T) {
	b := bustest.Start(t)
	here, there := open(t, b), open(t, b)
	if e, err := here.Ask(t.Context(), subject); err != nil || e.Value != nil || e.Revision != 0 || !e.Fresh() {
		t.Errorf("before it is stored: %+v, %v", e, err)
	}
	first, err := here.Replace(t.Context(), subject, counter{7}, 0)
	if err != nil || first.Revision == 0 || first.Value.N != 7 || !first.Fresh() {
		t.Fatalf("%+v, %v", first, err)
	}
	e, err := there.Ask(t.Context(), subject)
	if err != nil || e.Value == nil || e.Value.N != 7 || e.Revision != first.Revision || e.Created.IsZero() {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := there.Replace(t.Context(), subject, counter{8}, 0); !bus.HasErrorCode(err, bus.CodeWrongLast) {
		t.Errorf("with an old revision: %v", err)
	}
	s, err := b.JS.Stream(t.Context(), subjects.RunsStream)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := replica.Last(t.Context(), s, subjects.RunsAll)
	if err != nil || msg.Sequence != first.Revision || msg.Header.Get(jetstream.MsgTTLHeader) == "" {
		t.Errorf("the last message: %+v, %v", msg, err)
	}
	if msg, err := replica.Last(t.Context(), s, subjects.Run("other", "*")); msg != nil || err != nil {
		t.Errorf("of another tenant: %+v, %v", msg, err)
	}
}

// Processes that change an entry at the same time lose no change, and each change is recorded once.
func TestChangesMeet(t *testing.T) {
	b := bustest.Start(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	recorded := 0
	for range 4 {
		r := open(t, b)
		for range 10 {
			all.Go(func() {
				_, changed, err := r.Change(t.Context(), subject, count, func(*counter, counter) error {
					mu.Lock()
					defer mu.Unlock()
					recorded++
					return nil
				})
				if err != nil || !changed {
					t.Error(changed, err)
				}
			})
		}
	}
	all.Wait()
	if e, err := open(t, b).Read(t.Context(), subject); err != nil || e.Value.N != 40 || recorded != 40 {
		t.Errorf("%+v, %v, %d recorded", e, err, recorded)
	}
}

// A change that is refused, unrecorded or none stores nothing.
func TestNoChange(t *testing.T) {
	b := bustest.Start(t)
	r := open(t, b)
	if _, _, err := r.Change(t.Context(), subject, count, nil); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("no")
	fails := func(err error) func(replica.Entry[counter]) (counter, error) {
		return func(replica.Entry[counter]) (counter, error) { return counter{9}, err }
	}
	if e, changed, err := r.Change(t.Context(), subject, fails(replica.ErrUnchanged), nil); changed || err != nil ||
		e.Value.N != 1 {
		t.Errorf("unchanged: %+v, %t, %v", e, changed, err)
	}
	if _, changed, err := r.Change(t.Context(), subject, fails(failed), nil); changed || !errors.Is(err, failed) {
		t.Errorf("refused: %t, %v", changed, err)
	}
	record := func(before *counter, after counter) error {
		if before.N != 1 || after.N != 2 {
			t.Errorf("recorded %+v after %+v", after, before)
		}
		return failed
	}
	if _, changed, err := r.Change(t.Context(), subject, count, record); changed || !errors.Is(err, failed) {
		t.Errorf("unrecorded: %t, %v", changed, err)
	}
	if e, err := r.Read(t.Context(), subject); err != nil || e.Value.N != 1 {
		t.Errorf("%+v, %v", e, err)
	}
}

// An entry of a newer form is an error. A deleted entry counts as missing, at the revision of its deletion.
func TestForeignEntries(t *testing.T) {
	b := bustest.Start(t)
	r := open(t, b)
	for _, body := range []string{`{"form":99}`, ""} {
		ack, err := b.JS.Publish(t.Context(), subject, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		e, err := r.Read(t.Context(), subject)
		if (err == nil) != (body == "") || e.Revision != ack.Sequence || body == "" && e.Value != nil {
			t.Errorf("%q: %+v, %v", body, e, err)
		}
		if err != nil && !strings.Contains(err.Error(), "counter") {
			t.Errorf("the error does not say of what: %v", err)
		}
	}
	if e, changed, err := r.Change(t.Context(), subject, count, nil); err != nil || !changed || e.Value.N != 1 {
		t.Errorf("after a deletion: %+v, %v", e, err)
	}
	if _, err := replica.Open[counter](t.Context(), b.JS, "NOSUCH", "counters", nil, nil); err == nil ||
		!strings.HasPrefix(err.Error(), "counters: ") {
		t.Errorf("without a bucket: %v", err)
	}
}

// Follow asks five times a second, after failures with growing pauses, until its context ends.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		asked := 0
		replica.Follow(ctx, func(context.Context) error { asked++; return nil })
		if asked != 50 && asked != 51 {
			t.Errorf("%d questions in 10 s", asked)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		failed := errors.New("no")
		asked = 0
		if err := replica.Confirm(ctx, func(context.Context) error { asked++; return failed }); !errors.Is(err, failed) ||
			asked < 8 || asked > 20 {
			t.Errorf("%d questions in 1 s, %v", asked, err)
		}
	})
}

func TestAnswer(t *testing.T) {
	refusal := envelope.NewError(envelope.CodeLimit, "too many")
	for err, want := range map[error]*envelope.Error{
		replica.Refuse(refusal): refusal,
		errors.New("no leader"): envelope.NewError(envelope.CodeUnavailable, "the bucket could not be reached"),
	} {
		if a := replica.Answer(err, "the bucket"); a.Code != want.Code || a.Message != want.Message {
			t.Errorf("%v: %v", err, a)
		}
	}
	if a := replica.Unrecorded(errors.New("full")); a.Code != envelope.CodeAuditLag || a.Cause != "full" {
		t.Errorf("%+v", a)
	}
}
