package writer_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// A tenant that keeps more than a quarter of AUDIT, which drops no records and is more than half full, is over its
// share. Others are not. It is counted from the stream: also by a process that starts later, and until the records have
// expired.
func TestSharesOfTheRecord(t *testing.T) {
	f := setup(t)
	ensure := func(r bus.Retention) {
		t.Helper()
		if err := bus.Ensure(t.Context(), f.JS, bus.TopologyOptions{Retention: r}); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(subject string, messages int) {
		t.Helper()
		for range messages {
			if _, err := f.JS.Publish(t.Context(), subject, make([]byte, 16<<10)); err != nil {
				t.Fatal(err)
			}
		}
	}
	ensure(bus.Retention{AuditBytes: 1 << 20, AuditFull: bus.Refuse, AuditAge: time.Minute})
	fill(subjects.Partition(0).Audit("large"), 10)
	fill(subjects.JournalSubject("e", "large"), 10)
	fill(subjects.Partition(0).Audit("small"), 15)
	for range 2 {
		s, stop := shares(t, f)
		used, share := until(t, s, "large", 20<<14)
		if used < 20*16<<10 || used > 21*16<<10 || share != 256<<10 {
			t.Errorf("it keeps %d bytes, of %d", used, share)
		}
		if used, _ := s.OverRecord("small"); used > 0 {
			t.Errorf("the other tenant is over its share, with %d bytes", used)
		}
		stop()
	}
	s, stop := shares(t, f)
	until(t, s, "large", 20<<14)
	ensure(bus.Retention{AuditBytes: 2 << 20})
	until(t, s, "large", 0)
	fill(subjects.Partition(0).Audit("small"), 50)
	until(t, s, "small", 1)
	ensure(bus.Retention{AuditFull: bus.DropOldest})
	until(t, s, "small", 0)
	fill(subjects.Partition(0).Audit("small"), 80) // drops those of the other
	ensure(bus.Retention{AuditBytes: 2 << 20, AuditFull: bus.Refuse})
	until(t, s, "small", 1)
	stop()
	if used := s.Kept("large"); used > 0 {
		t.Errorf("it keeps %d bytes after its last record was dropped", used)
	}
}

// The log has one line when calls of a tenant begin to be refused, and one when they are admitted again.
func TestSharesAreLogged(t *testing.T) {
	f, said := setup(t), make(chan string, 100)
	full := bus.Retention{AuditBytes: 1 << 20, AuditFull: bus.Refuse}
	if err := bus.Ensure(t.Context(), f.JS, bus.TopologyOptions{Retention: full}); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		if _, err := f.JS.Publish(t.Context(), subjects.JournalSubject("e", "large"), make([]byte, 16<<10)); err != nil {
			t.Fatal(err)
		}
	}
	_, stop := sharesWith(t, f, slog.New(slog.NewTextHandler(lines(said), nil)))
	defer stop()
	saying := func(what string) {
		t.Helper()
		select {
		case line := <-said:
			if !strings.Contains(line, what) || !strings.Contains(line, "tenant=large") {
				t.Error(line)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("nothing is logged of a tenant that is %s", what)
		}
	}
	saying("refused")
	full.AuditBytes = 4 << 20
	if err := bus.Ensure(t.Context(), f.JS, bus.TopologyOptions{Retention: full}); err != nil {
		t.Fatal(err)
	}
	saying("admitted")
}

// lines sends each line that is written to it.
type lines chan<- string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// shares starts counting, until stop is called.
func shares(t *testing.T, f *fixture) (s *writer.Shares, stop func()) {
	t.Helper()
	return sharesWith(t, f, slog.New(slog.DiscardHandler))
}

func sharesWith(t *testing.T, f *fixture, log *slog.Logger) (s *writer.Shares, stop func()) {
	t.Helper()
	s = writer.NewShares(f.JS, log)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	return s, func() { cancel(); running.Wait() }
}

// until waits until a tenant is over its share with at least that many bytes, or is not if least is 0.
func until(t *testing.T, s *writer.Shares, tenant string, least int64) (used, share int64) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(20 * time.Second); ; {
		if used, share = s.OverRecord(tenant); (share > 0) == (least > 0) && used >= least {
			return used, share
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s keeps %d bytes, of %d", tenant, s.Kept(tenant), share)
		}
	}
}
