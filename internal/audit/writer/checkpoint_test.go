package writer

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// forgotten makes AUDIT drop all its messages, as happens when messages of other chains take their room.
func forgotten(b *bustest.Bus) {
	b.T.Helper()
	small := bus.TopologyOptions{Retention: bus.Retention{AuditBytes: 64 << 10}}
	if err := bus.Ensure(b.T.Context(), b.JS, small); err != nil {
		b.T.Fatal(err)
	}
	for range 8 {
		if _, err := b.JS.Publish(b.T.Context(), subjects.JournalSubject("other", "t"), make([]byte, 16<<10)); err != nil {
			b.T.Fatal(err)
		}
	}
}

// Events whose segments have all been dropped are not recorded again if a checkpoint covers them.
func TestForgottenIsNotRecordedAgain(t *testing.T) {
	b := bustest.Start(t)
	for n := range 3 {
		admit(b, n, "t")
	}
	p := observed(b)
	if err := p.flush(t.Context(), p.next()); err != nil {
		t.Fatal(err)
	}
	p.open = func() uint64 { return 2 }
	p.note(t.Context(), p.note(t.Context(), audit.Position{}))
	_, from, err := NewProjector(t.Context(), b.JS, 0, p.log, p.open)
	if err != nil || from != 4 {
		t.Fatalf("from %d, %v, with all that was recorded", from, err)
	}
	forgotten(b)
	admit(b, 3, "t")
	_, from, err = NewProjector(t.Context(), b.JS, 0, p.log, p.open)
	if err != nil || from != 2 {
		t.Errorf("from %d, %v: it has to find what is open", from, err)
	}
	next := observed(b)
	if f := next.next(); f == nil || len(f.records) != 2 || f.records[0].LogSeq != 4 {
		t.Fatalf("to be recorded: %+v", f)
	}
	if err := next.flush(t.Context(), next.next()); err != nil {
		t.Fatal(err)
	}
	if have := onRecord(b); len(have) != 1 || have[4] != 2 {
		t.Errorf("on record: %v", have)
	}
	if err := p.findEnd(t.Context()); err != nil || p.done.Seq != 4 {
		t.Errorf("whoever had seen it goes on at %d, %v", p.done.Seq, err)
	}
}

// If the chain is empty because the record was lost, and not because it was dropped, recording starts from the
// beginning.
func TestNoteOfALostRecord(t *testing.T) {
	b := bustest.Start(t)
	admit(b, 0, "t")
	before := b.Saved()
	p := observed(b)
	if err := p.flush(t.Context(), p.next()); err != nil {
		t.Fatal(err)
	}
	n := checkpoint{Through: p.done}
	b.Restored(before)
	if err := n.keep(t.Context(), b.JS, 0); err != nil {
		t.Fatal(err)
	}
	if _, from, err := NewProjector(t.Context(), b.JS, 0, p.log, p.open); err != nil || from != 1 {
		t.Errorf("from %d, %v", from, err)
	}
}

// Checkpoints of partitions do not overwrite each other or other metadata. An older checkpoint replaces none.
func TestNotes(t *testing.T) {
	b := bustest.Start(t)
	at := audit.Position{Seq: 7, Time: time.Now()}
	for _, n := range []struct {
		part subjects.Partition
		seq  uint64
	}{{0, 7}, {1, 9}, {0, 5}} {
		c := checkpoint{Through: audit.Position{Seq: n.seq, Time: at.Time}}
		if err := c.keep(t.Context(), b.JS, n.part); err != nil {
			t.Fatal(err)
		}
	}
	forgotten(b)
	var got []uint64
	for p := range subjects.Partition(3) {
		n, err := readCheckpoint(t.Context(), b.JS, p)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n.Through.Seq)
	}
	if !slices.Equal(got, []uint64{7, 9, 0}) {
		t.Errorf("%v", got)
	}
}
