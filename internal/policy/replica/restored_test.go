package replica_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// restorers are processes that may restore the same entry.
type restorers struct {
	*bustest.Bus
	all    []*replica.Replica[counter]
	copies []*replica.Copies
}

func (r *restorers) add() {
	r.T.Helper()
	copies, err := replica.OpenCopies(r.T.Context(), r.JS, slog.New(slog.DiscardHandler))
	if err != nil {
		r.T.Fatal(err)
	}
	one, err := replica.Open[counter](r.T.Context(), r.JS, subjects.RunsStream, "counter", nil, copies)
	if err != nil {
		r.T.Fatal(err)
	}
	r.all, r.copies = append(r.all, one), append(r.copies, copies)
}

// read lets all processes read the entry at once.
func (r *restorers) read(want int) {
	r.T.Helper()
	var reading sync.WaitGroup
	for _, one := range r.all {
		reading.Go(func() {
			if e, err := one.Read(r.T.Context(), subject); err != nil || e.Value == nil || e.Value.N != want {
				r.T.Errorf("read %+v, %v, want %d", e, err, want)
			}
		})
	}
	reading.Wait()
}

// recorded returns what all processes record within a second. The first try of each record fails.
func (r *restorers) recorded() (all []replica.Restored) {
	r.T.Helper()
	ctx, cancel := context.WithTimeout(r.T.Context(), time.Second)
	defer cancel()
	var mu sync.Mutex
	tries := map[string]int{}
	var recording sync.WaitGroup
	for _, c := range r.copies {
		recording.Go(func() {
			c.RecordRestored(ctx, func(_ context.Context, one replica.Restored) error {
				mu.Lock()
				defer mu.Unlock()
				if tries[one.ID]++; tries[one.ID] == 1 {
					return errors.New("the record is full")
				}
				all = append(all, one)
				return nil
			})
		})
	}
	recording.Wait()
	return all
}

// An entry that several processes restore at once is recorded once, by the one that stored it, and until that succeeds.
func TestRestoredOnce(t *testing.T) {
	r := &restorers{Bus: bustest.Start(t)}
	r.add()
	set := func(n int) {
		t.Helper()
		if _, _, err := r.all[0].Change(t.Context(), subject, func(replica.Entry[counter]) (counter, error) {
			return counter{n}, nil
		}, nil); err != nil {
			t.Fatal(err)
		}
	}
	set(1)
	old := r.Srv.Backup(subjects.RunsStream)
	set(2)
	for range 3 {
		r.add()
	}
	for reason, lose := range map[string]func(){
		replica.Older: old,
		replica.Missing: func() {
			s, err := r.JS.Stream(t.Context(), subjects.RunsStream)
			if err == nil {
				err = s.DeleteMsg(t.Context(), s.CachedInfo().State.LastSeq)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		lose()
		r.read(2)
		r.read(2)
		all := r.recorded()
		want := []replica.Restored{{Stream: subjects.RunsStream, Entry: subject, Reason: reason}}
		for i := range all {
			all[i].ID = ""
		}
		if !slices.Equal(all, want) {
			t.Errorf("%s: recorded %+v", reason, all)
		}
	}
	var none *replica.Copies
	none.RecordRestored(t.Context(), nil)
}
