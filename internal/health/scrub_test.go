package health

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// sealed returns the messages of n segments of one chain, with one record each.
func sealed(t *testing.T, n int) (all []stored) {
	t.Helper()
	prev := ""
	for i := range n {
		bodies, err := audit.SplitSegments([]audit.Record{{Event: audit.ToolDenied, Tenant: "acme"}}, audit.MaxSegment)
		if err != nil {
			t.Fatal(err)
		}
		s := audit.Segment{Source: audit.SourceRefusal, Writer: "d1", K: 1, N: 1, Prev: prev}
		data, hash, err := bodies[0].Seal(s)
		if err != nil {
			t.Fatal(err)
		}
		prev = hash
		all = append(all, stored{"tb.denied.d1.acme", uint64(i + 1), data})
	}
	return all
}

// scrubbed returns the failed checks of a scrub, by stream.
func scrubbed(t *testing.T, b *bustest.Bus) map[string]string {
	t.Helper()
	failed := map[string]string{}
	for _, c := range Scrub(t.Context(), b.JS, func(string, uint64, uint64) {}) {
		if c.Status != envelope.CheckOK {
			failed[strings.TrimPrefix(c.Name, "scrub: ")] = c.Says + c.Fix
		}
	}
	return failed
}

// serve stores calls that have succeeded, with their records and the list of kept calls, and a lock.
func serve(t *testing.T, b *bustest.Bus, calls int) {
	t.Helper()
	var records []audit.Record
	for n := range calls {
		s := b.Admit(n, envelope.PriorityNormal)
		b.Decide(s)
		records = append(records, audit.Record{Event: audit.ToolExecuted, Tenant: "acme", ToolName: "echo",
			Ref: "echo." + s.ID, LogSeq: s.Seq + 1})
	}
	bodies, err := audit.SplitSegments(records, audit.MaxSegment)
	if err != nil {
		t.Fatal(err)
	}
	segment, _, err := bodies[0].Seal(audit.Segment{Source: audit.SourceRefusal, Writer: "d1", K: 1, N: calls})
	if err != nil {
		t.Fatal(err)
	}
	for subject, data := range map[string][]byte{subjects.Partition(0).Audit("acme"): segment,
		subjects.Locks: []byte(`{"locks":[]}`)} {
		if _, err := b.JS.Publish(t.Context(), subject, data); err != nil {
			t.Fatal(err)
		}
	}
	keep, err := b.Log.OpenKept(t.Context(), slog.New(slog.DiscardHandler), false)
	if err != nil {
		t.Fatal(err)
	}
	written, err := b.NC.SubscribeSync(subjects.Partition(0).KeptSteps())
	if err != nil {
		t.Fatal(err)
	}
	stop := bustest.Run(t, keep)
	defer stop()
	if _, err := written.NextMsg(20 * time.Second); err != nil { // the slots are written before the step
		t.Fatal(err)
	}
}

// A call log that was deleted and created again lacks what the list of kept calls has.
func TestBehind(t *testing.T) {
	b, log := bustest.Start(t), subjects.Partition(0).Stream()
	serve(t, b, 3)
	if found := Behind(t.Context(), b.JS); found != nil {
		t.Errorf("a whole bus: %+v", found)
	}
	if err := b.JS.DeleteStream(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), b.JS, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	found := Behind(t.Context(), b.JS)
	if len(found) != 1 || found[0].Status != envelope.CheckFailed || !strings.Contains(found[0].Says, log) {
		t.Errorf("without the log: %+v", found)
	}
}

// A scrub of a whole bus finds nothing. It names the calls with a damaged event with their tenants, and other damaged
// messages by their subjects, each in the check of its stream.
func TestScrub(t *testing.T) {
	log := subjects.Partition(0).Stream()
	for text, call := range map[string]string{ // the first two are in the newest such event
		`{"response":{}}`: "echo.id00002", `{"request":{}}`: "echo.id00002", "oid00001": "echo.id00001",
	} {
		b := bustest.Start(t)
		serve(t, b, 3)
		if failed := scrubbed(t, b); len(failed) > 0 {
			t.Fatalf("a whole bus: %v", failed)
		}
		b.Srv.Stop()
		b.Srv.Damage(log, text, 3)
		b.Srv.Damage(subjects.ControlStream, `{"locks"`, 3)
		b.Srv.Restart()
		failed := scrubbed(t, b)
		if len(failed) != 2 || !strings.Contains(failed[log], call+" of tenant acme") ||
			!strings.Contains(failed[log], "toolbus repair") ||
			!strings.Contains(failed[subjects.ControlStream], "damaged: 1: "+subjects.Locks) {
			t.Errorf("%s: %v", text, failed)
		}
	}
	b := bustest.Start(t)
	if err := b.JS.DeleteStream(t.Context(), subjects.KeptStream); err != nil {
		t.Fatal(err)
	}
	if failed := scrubbed(t, b); len(failed) > 0 { // the usual checks miss the stream
		t.Errorf("without the list of kept calls: %v", failed)
	}
}

// A chain may have lost its oldest segments, which expire, and none in between. A segment holds what it was sealed
// with.
func TestRecordChains(t *testing.T) {
	changed := sealed(t, 2)
	changed[1].data[len(changed[1].data)-3] ^= 1
	whole := sealed(t, 4)
	for name, c := range map[string]struct {
		first uint64
		msgs  []stored
		wrong int
	}{
		"whole":              {1, whole, 0},
		"foreign":            {1, []stored{{"tb.denied.d1.acme", 1, []byte("{}")}}, 0},
		"expired":            {3, whole[2:], 0},
		"without its first":  {1, whole[1:], 1},
		"without its second": {1, append(whole[:1:1], whole[2:]...), 1},
		"changed":            {1, changed, 1},
	} {
		s := &stream{name: subjects.DeniedStream}
		s.begun.FirstSeq = c.first
		r := recordOf(s)
		for _, m := range c.msgs {
			r.segment(m)
		}
		if len(r.wrong) != c.wrong {
			t.Errorf("%s: %v", name, r.wrong)
		}
	}
}

// A set of sequences has those that were added, by their low halves, also beyond 32 bits.
func TestPositions(t *testing.T) {
	const first = 1<<32 - 100
	var p positions
	for seq := uint64(first); seq < first+200; seq += 3 {
		p.add(seq)
	}
	for seq := uint64(first - 10); seq < first+300; seq++ {
		if want := seq >= first && seq < first+200 && (seq-first)%3 == 0; p.has(uint32(seq)) != want {
			t.Errorf("%d: %t", seq, !want)
		}
	}
}

// manyMessages is more than a scrub reads between two reports of its progress.
const manyMessages = 1500

// fill stores messages in a stream that is read after others, so that the scrub has read some when it ends.
func fill(t *testing.T, b *bustest.Bus) {
	t.Helper()
	for i := range manyMessages {
		if _, err := b.JS.PublishAsync(fmt.Sprintf("tb.denied.d%d.acme", i%7), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-b.JS.PublishAsyncComplete():
	case <-time.After(20 * time.Second):
		t.Fatal("not stored")
	}
}

// A scrub that is interrupted ends at once and says so. It names no damage, since it has not read everything. It
// leaves no consumer, interrupted or not.
func TestInterruptedScrub(t *testing.T) {
	b := bustest.Start(t)
	serve(t, b, 3)
	fill(t, b)
	b.Srv.Stop()
	b.Srv.Damage(subjects.Partition(0).Stream(), `{"response":{}}`, 3)
	b.Srv.Restart()
	for _, interrupts := range []bool{true, false} {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		var began time.Time
		checks := Scrub(ctx, b.JS, func(stream string, _, _ uint64) {
			if interrupts && stream == subjects.DeniedStream {
				began = time.Now()
				interrupt()
			}
		})
		switch {
		case !interrupts:
		case began.IsZero():
			t.Fatal("it has not been interrupted")
		case time.Since(began) > 2*time.Second:
			t.Errorf("it ended %s after the interruption", time.Since(began))
		case len(checks) != 1 || checks[0].Says != "not all streams were read: context canceled":
			t.Errorf("%+v", checks)
		}
		for _, c := range bus.Streams(bus.TopologyOptions{}) {
			s, err := b.JS.Stream(t.Context(), c.Name)
			if err != nil || s.CachedInfo().State.Consumers != 0 {
				t.Errorf("interrupted: %t: %s: %v, consumers: %d", interrupts, c.Name, err, s.CachedInfo().State.Consumers)
			}
		}
	}
}

// A call with a damaged event that the audit record does not name any more is named, without its tenant.
func TestScrubWithoutRecord(t *testing.T) {
	b := bustest.Start(t)
	serve(t, b, 3)
	if err := b.JS.DeleteStream(t.Context(), subjects.AuditStream); err != nil {
		t.Fatal(err)
	}
	b.Srv.Stop()
	b.Srv.Damage(subjects.Partition(0).Stream(), `{"response":{}}`, 3)
	b.Srv.Restart()
	failed := scrubbed(t, b)[subjects.Partition(0).Stream()]
	if !strings.Contains(failed, "damaged: 1: echo.id00002") || strings.Contains(failed, "tenant") {
		t.Errorf("%s", failed)
	}
}
