package kv_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// deafen lets nobody who reads the call log now get any more events, though all looks well to them.
func (f *followerFixture) deafen() (consumers []string) {
	f.T.Helper()
	stream, err := f.JS.Stream(f.T.Context(), subjects.Partition(0).Stream())
	if err != nil {
		f.T.Fatal(err)
	}
	for name := range stream.ConsumerNames(f.T.Context()).Name() {
		if _, err := stream.PauseConsumer(f.T.Context(), name, time.Now().Add(time.Hour)); err != nil {
			f.T.Fatal(err)
		}
		consumers = append(consumers, name)
	}
	return consumers
}

// follow follows the log until the test ends.
func (f *followerFixture) follow() (follower *kv.Follower, seen <-chan uint64) {
	f.T.Helper()
	all := make(chan uint64, 100)
	follower = kv.NewFollower(f.JS, 0)
	bustest.Run(f.T, func(ctx context.Context) {
		if err := follower.Run(ctx, 1, func(o kv.FollowedEvent) { all <- o.Seq }); err != nil {
			f.T.Error(err)
		}
	})
	return follower, all
}

// next wants the event at seq, and no other, to be observed.
func (f *followerFixture) next(seen <-chan uint64, seq uint64) {
	f.T.Helper()
	select {
	case got := <-seen:
		if got != seq {
			f.T.Fatalf("observed %d, want %d", got, seq)
		}
	case <-time.After(20 * time.Second):
		f.T.Fatalf("%d is not observed", seq)
	}
}

// A follower whose events do not come, though its server has them and says that all is well, reads on from where it
// stands: nothing is left out and nothing observed twice, also when its former consumer hears again.
func TestDeafFollowerListensAgain(t *testing.T) {
	f := setupFollower(t)
	follower, seen := f.follow()
	f.Admit(1, envelope.PriorityNormal)
	f.next(seen, 1)
	deaf := f.deafen()
	f.Admit(2, envelope.PriorityNormal)
	f.Admit(3, envelope.PriorityNormal)
	f.next(seen, 2)
	f.next(seen, 3)
	for begun := time.Now(); follower.Behind(time.Now()) != 0; <-time.After(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("still behind")
		}
	}
	for _, name := range deaf {
		if _, err := f.JS.ResumeConsumer(t.Context(), subjects.Partition(0).Stream(), name); err != nil {
			t.Fatal(err)
		}
	}
	f.Admit(4, envelope.PriorityNormal)
	f.next(seen, 4)
	f.Admit(5, envelope.PriorityNormal)
	f.next(seen, 5)
}

// While the server is away, nobody falls behind: nothing can be admitted, but for the moment until that is noticed.
// What is not read when it is back counts from then on.
func TestNotBehindAServerThatIsAway(t *testing.T) {
	f := setupFollower(t)
	observed, release := make(chan struct{}), make(chan struct{})
	follower := kv.NewFollower(f.JS, 0)
	bustest.Run(t, func(ctx context.Context) {
		err := follower.Run(ctx, 1, func(o kv.FollowedEvent) {
			if o.Seq == 1 {
				close(observed)
				<-release
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
	f.Admit(1, envelope.PriorityNormal)
	<-observed
	f.Admit(2, envelope.PriorityNormal)
	f.Srv.Stop()
	const away = 5 * time.Second
	<-time.After(away)
	if behind := follower.Behind(time.Now()); behind > away-time.Second {
		t.Errorf("%s behind after %s without a server", behind, away)
	}
	f.Srv.Restart()
	before := follower.Behind(time.Now())
	for begun := time.Now(); follower.Behind(time.Now()) < before+time.Second; <-time.After(10 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("an event that waits does not count when the server is back")
		}
	}
	close(release)
}
