package bus_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// saved returns a copy of what the server has stored, for restored. The server restarts.
func (f *fixture) saved() string {
	f.t.Helper()
	f.srv.Stop()
	dir := f.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(f.srv.Dir())); err != nil {
		f.t.Fatal(err)
	}
	f.srv.Restart()
	return dir
}

// restored lets the server lose what it has stored since, as a power cut may. It restarts.
func (f *fixture) restored(dir string) {
	f.t.Helper()
	f.srv.Stop()
	if err := os.RemoveAll(f.srv.Dir()); err != nil {
		f.t.Fatal(err)
	}
	if err := os.CopyFS(f.srv.Dir(), os.DirFS(dir)); err != nil {
		f.t.Fatal(err)
	}
	f.srv.Restart()
}

// A follower that has read nothing yet notices too that the log loses its end.
func TestLostBeforeRead(t *testing.T) {
	f := setup(t)
	f.admit(1, envelope.PriorityNormal)
	dir := f.saved()
	end := f.admit(2, envelope.PriorityNormal).Seq
	done := make(chan error, 1)
	start(t, func(ctx context.Context) {
		done <- bus.NewFollower(f.js, 0).Run(ctx, end+1, func(bus.Observed) {})
	})
	f.consumedFrom(end + 1)
	f.restored(dir)
	select {
	case err := <-done:
		if !errors.Is(err, bus.ErrLostTail) {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("not noticed")
	}
}

// Events come one at a time and in order, also when one is being observed while the connection is
// made anew: what is recorded out of order would be taken for recorded twice.
func TestFollowsInOrderOverReconnection(t *testing.T) {
	f := setup(t)
	f.admit(1, envelope.PriorityNormal)
	seen, release := make(chan uint64, 10), make(chan struct{})
	start(t, func(ctx context.Context) {
		err := bus.NewFollower(f.js, 0).Run(ctx, 1, func(o bus.Observed) {
			seen <- o.Seq
			if o.Seq == 1 {
				<-release
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
	if first := <-seen; first != 1 {
		t.Fatalf("the first is %d", first)
	}
	f.srv.Restart()
	f.admit(2, envelope.PriorityNormal)
	select {
	case seq := <-seen:
		t.Errorf("%d is observed together with 1", seq)
	case <-time.After(3 * time.Second):
	}
	close(release)
	select {
	case seq := <-seen:
		if seq != 2 {
			t.Errorf("got %d", seq)
		}
	case <-time.After(time.Minute):
		t.Error("the second does not come")
	}
}

// A log that has lost its end uses positions again that are on record already. What is new there
// gets on record too, also when the projector has to look again how far it has come.
func TestProjectsPositionsUsedAgain(t *testing.T) {
	f := setup(t)
	stream, err := f.js.Stream(t.Context(), subjects.AuditStream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.Duplicates = 3 * time.Second // until then the server takes the new records for the old ones
	if _, err := f.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	stop := start(t, f.project)
	for n := range 3 {
		f.decide(f.admit(n, envelope.PriorityNormal))
	}
	f.recorded("id00002")
	stop()
	if err := f.js.DeleteStream(t.Context(), subjects.Part(0).Stream()); err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), f.js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	start(t, f.project)
	f.decide(f.admit(7, envelope.PriorityNormal))
	f.recorded("id00007")
}

// project projects the log until ctx ends.
func (f *fixture) project(ctx context.Context) {
	p, from, err := bus.NewProjector(ctx, f.js, 0, slog.New(slog.DiscardHandler), func() uint64 { return 0 })
	if err != nil {
		f.t.Error(err)
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			f.t.Error(err)
		}
	})
	if err := bus.NewFollower(f.js, 0).Run(ctx, from, func(o bus.Observed) { p.Observe(ctx, o) }); err != nil {
		f.t.Error(err)
	}
	wg.Wait()
}

// recorded waits until the admission and the decision of a call are on record.
func (f *fixture) recorded(callID string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	n := 0
	for r, err := range bus.ReplayAudit(ctx, f.js, bus.AuditFilter{Call: callID, Follow: true}) {
		if err != nil {
			f.t.Fatalf("%d records of %s: %v", n, callID, err)
		}
		if n++; r.Event == audit.ToolExecuted {
			break
		}
	}
	if n != 2 {
		f.t.Errorf("%d records of %s", n, callID)
	}
}

// Events that were announced and are lost before they come do not keep a follower behind: it would
// stop admission until the next event, and without admission there may be none.
func TestNotBehindWhatIsLost(t *testing.T) {
	f := setup(t)
	f.admit(1, envelope.PriorityNormal)
	door := &gate{}
	js, err := jetstream.New(f.srv.Connect(t, nats.SetCustomDialer(door)))
	if err != nil {
		t.Fatal(err)
	}
	seen, release := make(chan uint64), make(chan struct{})
	follower := bus.NewFollower(js, 0)
	start(t, func(ctx context.Context) {
		err := follower.Run(ctx, 1, func(o bus.Observed) {
			seen <- o.Seq
			<-release
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-seen
	f.admit(2, envelope.PriorityNormal)
	door.Lock()
	dir := f.saved()
	f.admit(3, envelope.PriorityNormal) // before the follower is back
	door.Unlock()
	f.consumedFrom(2)
	release <- struct{}{}
	if seq := <-seen; seq != 2 || follower.Behind(time.Now()) == 0 {
		t.Fatalf("at %d, %s behind", seq, follower.Behind(time.Now()))
	}
	f.restored(dir)
	f.consumedFrom(3)
	close(release)
	for begun := time.Now(); follower.Behind(time.Now()) != 0; <-time.After(10 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("%s behind", follower.Behind(time.Now()))
		}
	}
}

// gate lets connections be made while nobody holds it.
type gate struct{ sync.RWMutex }

func (g *gate) Dial(network, address string) (net.Conn, error) {
	g.RLock()
	defer g.RUnlock()
	return net.Dial(network, address)
}

// A follower that gets no events any more is behind as soon as there are some: admission must not go on
// without a record.
func TestBehindWhatDoesNotCome(t *testing.T) {
	f := setup(t)
	seen, release := make(chan uint64, 10), make(chan struct{})
	follower := bus.NewFollower(f.js, 0)
	start(t, func(ctx context.Context) {
		err := follower.Run(ctx, 1, func(o bus.Observed) {
			seen <- o.Seq
			<-release
		})
		if err != nil {
			t.Error(err)
		}
	})
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	f.admit(1, envelope.PriorityNormal)
	<-seen
	f.admit(2, envelope.PriorityNormal)
	until := func(what string, ok func(time.Duration) bool) {
		t.Helper()
		for begun := time.Now(); !ok(follower.Behind(time.Now())); <-time.After(10 * time.Millisecond) {
			if time.Since(begun) > time.Minute {
				t.Fatalf("%s: %s behind", what, follower.Behind(time.Now()))
			}
		}
	}
	until("nothing comes", func(behind time.Duration) bool { return behind > 1500*time.Millisecond })
	free()
	until("all has come", func(behind time.Duration) bool { return behind == 0 })
}

// consumedFrom waits until somebody reads the call log from seq on.
func (f *fixture) consumedFrom(seq uint64) {
	f.t.Helper()
	for {
		stream, err := f.js.Stream(f.t.Context(), subjects.Part(0).Stream())
		if err != nil {
			f.t.Fatal(err)
		}
		for info := range stream.ListConsumers(f.t.Context()).Info() {
			if info.Config.OptStartSeq == seq && info.NumWaiting > 0 {
				return
			}
		}
		<-time.After(10 * time.Millisecond)
	}
}
