package reader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// A message that is larger than an answer is transferred in parts. Messages that do not fit into a page follow in the
// next.
func TestThroughPages(t *testing.T) {
	f := setup(t)
	archives := f.archives()
	var want []string
	for i, size := range []int{900_000, 10, 400_000, 400_000, 700_000, 1} {
		body := fmt.Sprintf(`"%d%s"`, i, strings.Repeat("x", size))
		want = append(want, body)
		err := deadletter.Publish(t.Context(), f.JS, deadletter.Message{
			Time: time.Now(), Cause: envelope.NewError(envelope.CodeLost, ""), Attempt: 1, Body: jsontext.Value(body),
			State: call.State{Pinned: call.Pinned{Tenant: "t", Tool: "x", ID: fmt.Sprint("id", i)}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for way, from := range archives {
		letters, err := deadletter.DeadLetters(t.Context(), from)
		if err != nil || len(letters) != len(want) {
			t.Fatalf("%s: %d letters, %v", way, len(letters), err)
		}
		for i, d := range letters {
			if string(d.Body) != want[i] {
				t.Errorf("%s: letter %d has %d bytes, want %d", way, i, len(d.Body), len(want[i]))
			}
		}
		if d, err := deadletter.DeadLetterAt(t.Context(), from, 5); err != nil || string(d.Body) != want[4] {
			t.Errorf("%s: %v", way, err)
		}
		if _, err := deadletter.DeadLetterAt(t.Context(), from, 7); err == nil {
			t.Errorf("%s: there is a seventh", way)
		}
	}
}

// A server drops a direct get that it does not permit. DirectGets then fails, and does not report an empty stream.
func TestUnansweredIsNotEmpty(t *testing.T) {
	f := setup(t)
	from := f.archives()["copies"]
	if err := f.JS.DeleteStream(t.Context(), subjects.AuditStream); err != nil {
		t.Fatal(err)
	}
	if _, err := f.NC.Subscribe(subjects.DirectGet(subjects.AuditStream), func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	var failed error
	for _, err := range from.Messages(t.Context(), subjects.AuditStream, reader.StartAt{}, 100*time.Millisecond) {
		failed = err
	}
	if !errors.Is(failed, context.DeadlineExceeded) {
		t.Errorf("without an answer: %v", failed)
	}
}

// ServePage deletes its consumers, because a stream permits only some hundreds.
func TestPagesLeaveNoConsumers(t *testing.T) {
	f := setup(t)
	from := f.archives()["through"]
	for range 5 { // one page each
		data := []byte(strings.Repeat("x", 500_000))
		if _, err := f.JS.Publish(t.Context(), subjects.Dead("t", "x"), data); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for _, err := range from.Messages(t.Context(), subjects.DeadStream, reader.StartAt{}, time.Minute) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 5 {
		t.Errorf("%d messages were read", n)
	}
	bustest.WaitForNoConsumers(t, f.JS, subjects.DeadStream)
}

// Only the streams of the record can be read.
func TestThroughOnlyTheRecord(t *testing.T) {
	f := setup(t)
	f.Admit(1, envelope.PriorityNormal)
	from := f.archives()["through"]
	for _, stream := range []string{subjects.Partition(0).Stream(), subjects.PoolsStream, subjects.PayloadsStream, ""} {
		for _, err := range from.Messages(t.Context(), stream, reader.StartAt{}, time.Minute) {
			if err == nil || !strings.Contains(err.Error(), "no stream of the record") {
				t.Errorf("%s: %v", stream, err)
			}
		}
	}
}

// ViaDispatcher yields new messages with quiet 0, and WaitRecorded waits for the existing ones.
func TestThroughFollows(t *testing.T) {
	for _, way := range []string{"through", "copies"} {
		t.Run(way, func(t *testing.T) { follows(t, way) })
	}
}

func follows(t *testing.T, way string) {
	f := setup(t)
	bustest.Run(t, f.project)
	from := f.archives()[way]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f.Decide(f.Admit(1, envelope.PriorityNormal))
	if err := from.WaitRecorded(ctx); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range reader.Replay(ctx, from, reader.Filter{Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 { // all that were stored before
			f.Decide(f.Admit(2, envelope.PriorityNormal))
		}
		if n == 4 {
			break
		}
	}
	if n != 4 {
		t.Errorf("%d records", n)
	}
}
