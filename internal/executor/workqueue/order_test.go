package workqueue_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
)

// pausePoint lets the bytes of a connection pass until a text has passed for the nth time. Then it holds them, that
// text included, until it is released.
type pausePoint struct {
	text    string
	nth     int
	reached chan struct{}
	goOn    chan struct{}
	release func()

	mu   sync.Mutex
	seen int
}

func pauseAt(t *testing.T, text string, nth int) *pausePoint {
	p := &pausePoint{text: text, nth: nth, reached: make(chan struct{}), goOn: make(chan struct{})}
	p.release = sync.OnceFunc(func() { close(p.goOn) })
	t.Cleanup(p.release)
	return p
}

func (p *pausePoint) pass(b []byte) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.seen
	if p.seen += bytes.Count(b, []byte(p.text)); before < p.nth && p.seen >= p.nth {
		close(p.reached)
		<-p.goOn
	}
}

// paused dials connections that pause where they send, or where they receive; nil never pauses.
type paused struct{ out, in *pausePoint }

// Dial implements [nats.CustomDialer].
func (p paused) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return pausedConn{c, p}, err
}

type pausedConn struct {
	net.Conn
	at paused
}

func (c pausedConn) Write(b []byte) (int, error) {
	c.at.out.pass(b)
	return c.Conn.Write(b)
}

func (c pausedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.at.in.pass(b[:n])
	return n, err
}

// What passes the pause points.
const (
	aPull   = "CONSUMER.MSG.NEXT"
	noPull  = "NATS/1.0 503" // there is no such consumer
	aCreate = "CONSUMER.CREATE"
)

// pulling runs an executor's workers over nc, and returns the deliveries that they count.
func (f *fixture) pulling(nc *nats.Conn) <-chan int {
	f.T.Helper()
	got := make(chan int, 10)
	w, err := workqueue.New(f.T.Context(), workqueue.Watch(f.JS, "default", 1), "default", 1, 4, time.Minute,
		func(_ context.Context, w *workqueue.Message) {
			got <- w.Deliveries
			w.Ack()
		})
	if err != nil {
		f.T.Fatal(err)
	}
	bustest.Run(f.T, func(ctx context.Context) { w.Run(ctx, ctx, nc) })
	return got
}

// maker makes the consumers over a connection, and says when they are made.
func (f *fixture) maker(at paused) <-chan error {
	f.T.Helper()
	js, err := jetstream.New(f.Srv.Connect(f.T, nats.SetCustomDialer(at)))
	if err != nil {
		f.T.Fatal(err)
	}
	made := make(chan error, 1)
	go func() { made <- workqueue.Keep(js, "default", 1, time.Minute).Ensure(f.T.Context()) }()
	return made
}

// Work that waits comes if the consumers are made while the first pulls, or the second ones, are on their way to the
// server, or while the answers to them are on their way back.
func TestConsumersAreMadeDuringPulls(t *testing.T) {
	for _, nth := range []int{1, 4, 5, 12} { // as many pulls go out at first as there are slots
		for _, held := range []string{aPull, noPull} {
			t.Run(fmt.Sprint(held, nth), func(t *testing.T) {
				t.Parallel()
				f := setup(t)
				f.Admit(1, envelope.PriorityNormal)
				p := pauseAt(t, held, nth)
				at := paused{out: p}
				if held == noPull {
					at = paused{in: p}
				}
				got := f.pulling(f.Srv.Connect(t, nats.SetCustomDialer(at)))
				<-p.reached
				if err := <-f.maker(paused{}); err != nil {
					t.Fatal(err)
				}
				p.release()
				next(t, got)
			})
		}
	}
}

// Work that waits comes if pulls begin, or go on, just before each of the consumers is made. The consumer of the work
// is the second one.
func TestPullsDuringConsumersAreMade(t *testing.T) {
	for nth := 1; nth <= 6; nth++ {
		for _, pulled := range []bool{false, true} {
			t.Run(fmt.Sprint(nth, pulled), func(t *testing.T) {
				t.Parallel()
				f := setup(t)
				f.Admit(1, envelope.PriorityNormal)
				answered := pauseAt(t, noPull, 1)
				answered.release() // it only says when
				var got <-chan int
				if pulled {
					got = f.pulling(f.Srv.Connect(t, nats.SetCustomDialer(paused{in: answered})))
					<-answered.reached
				}
				p := pauseAt(t, aCreate, nth)
				made := f.maker(paused{out: p})
				<-p.reached
				if !pulled {
					got = f.pulling(f.Srv.Connect(t, nats.SetCustomDialer(paused{in: answered})))
				}
				if nth > 2 {
					next(t, got)
				} else {
					<-answered.reached
				}
				p.release()
				if err := <-made; err != nil {
					t.Fatal(err)
				}
				if nth <= 2 {
					next(t, got)
				}
			})
		}
	}
}
