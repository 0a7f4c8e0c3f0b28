package writer_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// If several dispatchers record the same event at the same time, as for copies of one request, all succeed and readers
// get it once.
func TestRecordOfCopies(t *testing.T) {
	js := natstest.StartCluster(t, 3)[0].JetStream(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := bus.Ensure(ctx, js, bus.TopologyOptions{Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	state := call.State{Pinned: call.Pinned{Tenant: "default", Tool: "echo"}, Attempts: []call.Attempt{{N: 1,
		Admitted: 7}}}
	var all sync.WaitGroup
	for n := range 16 {
		journal := writer.NewJournal(js, fmt.Sprint("process", n), time.Now, func() string { return "n" }, nil)
		bustest.Run(t, journal.Run)
		all.Go(func() {
			if err := journal.Shared(ctx, state, 1, []call.Owner{{CallID: "joiner"}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s, err := js.Stream(ctx, subjects.AuditStream)
	if err != nil || s.CachedInfo().State.Msgs != 16 {
		t.Errorf("%+v, %v", s, err)
	}
	told := 0
	for _, err := range reader.Replay(ctx, reader.Streams(js), reader.Filter{Call: "joiner"}) {
		if told++; err != nil {
			t.Fatal(err)
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}

// The error that another write is in progress is not a refusal: that write may be the writer's own earlier attempt.
func TestRecordWhileAnotherWriteIsUnderWay(t *testing.T) {
	js := natstest.StartCluster(t, 3)[0].JetStream(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := bus.Ensure(ctx, js, bus.TopologyOptions{Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	journal := writer.NewJournal(js, "process", time.Now, func() string { return "n" }, nil)
	bustest.Run(t, journal.Run)
	stream, err := js.Stream(ctx, subjects.AuditStream)
	if err != nil {
		t.Fatal(err)
	}
	underWay := 0
	for range 30 {
		end := uint64(0)
		if last, err := stream.GetLastMsgForSubject(ctx, subjects.JournalSubjectsOf("process")); err == nil {
			end = last.Sequence
		}
		var others sync.WaitGroup
		failed := make([]error, 8)
		for i := range failed {
			others.Go(func() {
				other := &nats.Msg{Subject: subjects.JournalSubject("process", "t"), Data: []byte("{}"), Header: nats.Header{
					jetstream.ExpectedLastSubjSeqHeader:     {strconv.FormatUint(end, 10)},
					jetstream.ExpectedLastSubjSeqSubjHeader: {subjects.JournalSubjectsOf("process")},
				}}
				_, failed[i] = js.PublishMsg(ctx, other)
			})
		}
		if err := journal.Note(ctx, audit.Record{Tenant: "t"}); err != nil {
			t.Error(err)
		}
		others.Wait()
		for _, err := range failed {
			if bus.HasErrorCode(err, bus.CodeUnderWay) {
				underWay++
			}
		}
	}
	if underWay == 0 {
		t.Error("no two writes met")
	}
}
