package clock

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Delays of the network between the server and all others.
const (
	leastDelay = 5 * time.Millisecond
	mostDelay  = 125 * time.Millisecond
)

// delay forwards connections to a server. What one side sends arrives in its order, after a time that changes while
// slow is set.
func delay(t *testing.T, upstream string, slow *atomic.Bool) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			server, err := net.Dial("tcp", upstream)
			if err != nil {
				_ = client.Close()
				continue
			}
			all.Go(func() { late(server, client, slow) })
			all.Go(func() { late(client, server, slow) })
		}
	})
	return l.Addr().String()
}

// late copies from one connection to the other with delays, and closes both at the end.
func late(to, from net.Conn, slow *atomic.Bool) {
	type piece struct {
		data []byte
		at   time.Time
	}
	pieces := make(chan piece, 10_000)
	var writer sync.WaitGroup
	writer.Go(func() {
		for p := range pieces {
			<-time.After(time.Until(p.at))
			if _, err := to.Write(p.data); err != nil {
				_ = from.Close()
			}
		}
		_ = to.Close()
	})
	for {
		buf := make([]byte, 32<<10)
		n, err := from.Read(buf)
		if n > 0 {
			at := time.Now()
			if slow.Load() {
				at = at.Add(leastDelay + rand.N(mostDelay-leastDelay))
			}
			pieces <- piece{buf[:n], at}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = to.Close()
			}
			break
		}
	}
	close(pieces)
	writer.Wait()
}

// testJitter makes sixty calls a second over a network whose delay changes: each stored outcome can be read, and no
// duration is negative.
func testJitter(t *testing.T, role string) {
	lasts := 20 * time.Second
	if *all {
		lasts = 10 * time.Minute
	}
	s := newSystem(t, role)
	s.serve()
	var slow atomic.Bool // not while processes start, which ask the server a hundred times
	s.via = "nats://" + delay(t, s.host(), &slow)
	s.startAll()
	slow.Store(true)
	l := &load{t: t, client: s.client(), began: time.Now()}
	ctx, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	var calls sync.WaitGroup
	for tick := time.NewTicker(time.Second / 60); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
			tick.Stop()
		case <-tick.C:
			calls.Go(func() { l.call(rand.N(50*time.Millisecond), 30*time.Second) })
		}
	}
	calls.Wait()
	slow.Store(false)
	refused := l.refused(0)
	for _, m := range refused {
		if m.told.Error.Code == envelope.CodeChecksum {
			t.Errorf("%s", m)
		}
	}
	if len(refused) > len(l.calls)/20 { // few take longer than they have
		t.Errorf("%d of %d calls did not succeed", len(refused), len(l.calls))
	}
	l.check(s.ledger)
}
