package kv_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// A follower that has read nothing yet notices too that the log loses its end.
func TestLostBeforeRead(t *testing.T) {
	f := setupFollower(t)
	f.Admit(1, envelope.PriorityNormal)
	dir := f.Saved()
	end := f.Admit(2, envelope.PriorityNormal).Seq
	done := make(chan error, 1)
	bustest.Run(t, func(ctx context.Context) {
		done <- kv.NewFollower(f.JS, 0).Run(ctx, end+1, func(kv.FollowedEvent) {})
	})
	f.consumedFrom(end + 1)
	f.Restored(dir)
	select {
	case err := <-done:
		if !errors.Is(err, kv.ErrStreamRolledBack) {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("not noticed")
	}
}

// Events come one at a time and in order, also when one is being observed while the connection is
// made anew: what is recorded out of order would be taken for recorded twice.
func TestFollowsInOrderOverReconnection(t *testing.T) {
	f := setupFollower(t)
	f.Admit(1, envelope.PriorityNormal)
	seen, release := make(chan uint64, 10), make(chan struct{})
	bustest.Run(t, func(ctx context.Context) {
		err := kv.NewFollower(f.JS, 0).Run(ctx, 1, func(o kv.FollowedEvent) {
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
	f.Srv.Restart()
	f.Admit(2, envelope.PriorityNormal)
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

// Events that were announced and are lost before they come do not keep a follower behind: it would
// stop admission until the next event, and without admission there may be none.
func TestNotBehindWhatIsLost(t *testing.T) {
	f := setupFollower(t)
	f.Admit(1, envelope.PriorityNormal)
	door := &gate{}
	js, err := jetstream.New(f.Srv.Connect(t, nats.SetCustomDialer(door)))
	if err != nil {
		t.Fatal(err)
	}
	seen, release := make(chan uint64), make(chan struct{})
	follower := kv.NewFollower(js, 0)
	bustest.Run(t, func(ctx context.Context) {
		err := follower.Run(ctx, 1, func(o kv.FollowedEvent) {
			seen <- o.Seq
			<-release
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-seen
	f.Admit(2, envelope.PriorityNormal)
	door.Lock()
	dir := f.Saved()
	f.Admit(3, envelope.PriorityNormal) // before the follower is back
	door.Unlock()
	f.consumedFrom(2)
	release <- struct{}{}
	if seq := <-seen; seq != 2 || follower.Behind(time.Now()) == 0 {
		t.Fatalf("at %d, %s behind", seq, follower.Behind(time.Now()))
	}
	f.Restored(dir)
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
	f := setupFollower(t)
	seen, release := make(chan uint64, 10), make(chan struct{})
	follower := kv.NewFollower(f.JS, 0)
	bustest.Run(t, func(ctx context.Context) {
		err := follower.Run(ctx, 1, func(o kv.FollowedEvent) {
			seen <- o.Seq
			<-release
		})
		if err != nil {
			t.Error(err)
		}
	})
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	f.Admit(1, envelope.PriorityNormal)
	<-seen
	f.Admit(2, envelope.PriorityNormal)
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
func (f *followerFixture) consumedFrom(seq uint64) {
	f.T.Helper()
	for {
		stream, err := f.JS.Stream(f.T.Context(), subjects.Partition(0).Stream())
		if err != nil {
			f.T.Fatal(err)
		}
		for info := range stream.ListConsumers(f.T.Context()).Info() {
			if info.Config.OptStartSeq == seq && info.NumWaiting > 0 {
				return
			}
		}
		<-time.After(10 * time.Millisecond)
	}
}
