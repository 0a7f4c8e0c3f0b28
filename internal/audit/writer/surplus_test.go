package writer

import (
	"context"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// crowdedBy returns shares of a nearly full AUDIT, of which a tenant fills more than its share.
func crowdedBy(tenant string) *Shares {
	s := &Shares{spare: true, kept: map[string]int64{tenant: 500, "small": 100}}
	s.info.Config.MaxBytes, s.info.State.Bytes = 1000, 900
	return s
}

// sequences returns the sequences of the log of the requests that a stream has on record, in order, and checks the
// chain of each subject in SURPLUS.
func sequences(b *bustest.Bus, stream, subject string) (all []uint64) {
	b.T.Helper()
	prev := ""
	for msg, err := range bus.Messages(b.T.Context(), b.JS, stream,
		jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}}, bus.ReadTimeout) {
		if err != nil {
			b.T.Fatal(err)
		}
		s, ok, err := audit.Open(msg.Data())
		if err != nil || !ok || s.Whole() != nil || stream == subjects.SurplusStream && s.Prev != prev {
			b.T.Fatalf("%t, %v, %v, after %s: %s", ok, err, s.Whole(), prev, msg.Data())
		}
		prev = s.Hash
		for line := range s.Lines() {
			if r, ok, err := audit.Decode(line); err == nil && ok && r.Event == audit.ToolRequested {
				all = append(all, r.LogSeq)
			}
		}
	}
	return all
}

// Records of a tenant that crowds AUDIT go to SURPLUS, except for the last event of a flush without another. A
// projector that ends between the two streams, and one that does not know the shares, leave nothing out and record
// nothing twice.
func TestSurplus(t *testing.T) {
	b := bustest.Start(t)
	for n := range 10 {
		admit(b, n, []string{"small", "large"}[n%2])
	}
	p := observed(b)
	p.Shares = crowdedBy("large")
	rest, err := p.divert(t.Context(), p.next().records)
	if err != nil || len(rest) != 10 {
		t.Fatalf("%d records are left for AUDIT, %v", len(rest), err)
	}
	for n := range 6 {
		admit(b, 10+n, "large")
	}
	flush := func(s *Shares) {
		t.Helper()
		p := observed(b) // it has not stored anything yet
		p.Shares = s
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	want := func(large, inAudit []uint64) {
		t.Helper()
		have := sequences(b, subjects.SurplusStream, subjects.Partition(0).Surplus("large"))
		if !slices.Equal(have, large) {
			t.Errorf("SURPLUS has %d, want %d", have, large)
		}
		have = sequences(b, subjects.AuditStream, subjects.Partition(0).Audit("large"))
		if !slices.Equal(have, inAudit) {
			t.Errorf("AUDIT has %d, want %d", have, inAudit)
		}
	}
	want([]uint64{2, 4, 6, 8, 10}, nil)
	flush(nil) // a dispatcher that has just started
	want([]uint64{2, 4, 6, 8, 10}, []uint64{11, 12, 13, 14, 15, 16})
	if small := sequences(b, subjects.AuditStream, subjects.Partition(0).Audit("small")); len(small) != 5 {
		t.Errorf("AUDIT has %d of the other tenant", small)
	}
	for n := range 4 {
		admit(b, 20+n, "large")
	}
	flush(crowdedBy("large"))
	want([]uint64{2, 4, 6, 8, 10, 17, 18, 19}, []uint64{11, 12, 13, 14, 15, 16, 20})
	chained(b)
	if err := WaitRecorded(t.Context(), b.JS); err != nil {
		t.Error(err)
	}
}

// A flush that another projector has left with records in SURPLUS, and that is cut shorter, keeps its last event in
// AUDIT.
func TestSurplusOfAShorterFlush(t *testing.T) {
	b := bustest.Start(t)
	for n := range 3 {
		admit(b, n, "large")
	}
	p := observed(b)
	p.Shares = crowdedBy("large")
	records := p.next().records
	if _, err := p.divert(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	rest, err := p.divert(t.Context(), records[:2])
	if err != nil || len(rest) != 2 || rest[0].LogSeq != 1 {
		t.Errorf("AUDIT gets %+v, %v", rest, err)
	}
}

// If SURPLUS cannot be written, all records go to AUDIT. If another projector was faster, none does.
func TestSurplusAway(t *testing.T) {
	b := bustest.Start(t)
	for n := range 3 {
		admit(b, n, "large")
	}
	p := observed(b)
	p.Shares = crowdedBy("large")
	records := p.next().records
	if _, err := p.divert(t.Context(), records[:4]); err != nil {
		t.Fatal(err)
	}
	if err := p.surplus.resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.JS.Publish(t.Context(), subjects.Partition(0).Surplus("large"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.divert(t.Context(), records); !overtaken(err) {
		t.Errorf("behind another projector: %v", err)
	}
	if err := b.JS.DeleteStream(t.Context(), subjects.SurplusStream); err != nil {
		t.Fatal(err)
	}
	clear(p.surplus.chains)
	if rest, err := p.divert(t.Context(), records); err != nil || len(rest) != len(records) {
		t.Errorf("without SURPLUS AUDIT gets %d records, %v", len(rest), err)
	}
}
