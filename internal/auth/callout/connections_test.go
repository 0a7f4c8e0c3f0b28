package callout_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/callout"
)

// dispatch answers about connections as a dispatcher does, with bounds, until it is stopped or the test ends.
func (g *guarded) dispatch() *callout.Connections {
	g.t.Helper()
	nc, o := g.as(g.keys.Callout), g.options()
	open := callout.NewConnections(g.as(g.keys.System), time.Now, slog.New(slog.NewTextHandler(g.said, nil)))
	o.Admit = open.Admit
	c, err := callout.Serve(nc, o)
	if err != nil {
		g.t.Fatal(err)
	}
	ctx := g.t.Context()
	var running sync.WaitGroup
	running.Go(func() { open.Run(ctx) })
	g.t.Cleanup(func() { running.Wait(); c.Stop() }) // after the context of the test has ended
	return open
}

// until waits until something is so.
func (g *guarded) until(what string, is func() bool) {
	g.t.Helper()
	if is() {
		return
	}
	tick, late := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			g.t.Fatalf("within a minute it is not so: %s", what)
		}
	}
}

// crowd opens connections with tokens, and counts those that last.
func (g *guarded) crowd(n int, tokens ...string) (last *atomic.Int64, all *sync.Map) {
	g.t.Helper()
	last, all = &atomic.Int64{}, &sync.Map{}
	var opening sync.WaitGroup
	for worker := range 20 {
		opening.Go(func() {
			for i := worker; i < n; i += 20 {
				nc, err := nats.Connect(g.url, nats.NoReconnect(), quiet, nats.Token(tokens[i%len(tokens)]),
					nats.ClosedHandler(func(nc *nats.Conn) { last.Add(-1); all.Delete(nc) }))
				if err == nil {
					last.Add(1)
					all.Store(nc, true)
					g.t.Cleanup(nc.Close)
				}
			}
		})
	}
	opening.Wait()
	return last, all
}

// turnedAway opens n connections with a token at once, and returns how many of them read that a bound is reached. None
// may read that the token is worth nothing. Connections that are let in stay.
func (g *guarded) turnedAway(n int, token string) (refused int) {
	g.t.Helper()
	type dialled struct {
		nc  *nats.Conn
		err error
	}
	all := make(chan dialled)
	for range n {
		go func() {
			nc, err := bus.Dial(g.url, "one of many", nats.NoReconnect(), quiet, nats.Token(token))
			all <- dialled{nc, err}
		}()
	}
	for range n {
		switch d := <-all; {
		case d.err == nil:
			g.t.Cleanup(d.nc.Close)
		case errors.Is(d.err, bus.ErrCrowded):
			refused++
		case !bus.IsUnreachable(d.err): // let in, and closed at once
			g.t.Error(d.err)
		}
	}
	return refused
}

// Two dispatchers let in as many connections as a family may have, those of narrowed tokens included, wherever it was
// let in before, and close what was too much. Further ones read that there are too many. Others come in all the same,
// and so does the family when some have gone.
func TestConnectionsOfFamily(t *testing.T) {
	g := guard(t)
	g.dispatch()
	g.dispatch()
	root := g.principal(auth.Agent, "agent://a", auth.NewID())
	less, err := root.Narrow(auth.Narrowing{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	g.set(less.Family, less)
	last, all := g.crowd(600, root.Family, less.Family)
	g.until("no more last than may", func() bool { return last.Load() <= callout.FamilyConnections })
	if n := last.Load(); n < callout.FamilyConnections-20 {
		t.Errorf("%d connections last", n)
	}
	g.until("40 more at once are refused", func() bool { return g.turnedAway(40, less.Family) == 40 })
	g.dispatch() // which has let in none
	others, _ := g.crowd(callout.FamilyConnections, root.Family)
	g.until("what came beside them is closed", func() bool {
		return last.Load()+others.Load() <= callout.FamilyConnections
	})
	other := g.principal(auth.Agent, "agent://b", "other")
	g.connect(nats.Token(other.Family))
	n := 0
	all.Range(func(nc, _ any) bool { nc.(*nats.Conn).Close(); n++; return n < 10 })
	more := 0
	g.until("10 are let in after 10 were closed", func() bool { // of which each dispatcher has to hear
		nc, err := nats.Connect(g.url, nats.NoReconnect(), quiet, nats.Token(less.Family))
		if err == nil {
			t.Cleanup(nc.Close)
			more++
		}
		return more == 10
	})
}

// A client whose messages are refused in great number is closed, and its family refused, by each dispatcher. A client
// that sends more messages, which dispatchers get, is not, although nobody answers it.
func TestFloodOfViolations(t *testing.T) {
	if testing.Short() {
		t.Skip("with these bounds a flood takes a minute of CPU under the race detector; .ci/cover runs it without")
	}
	g := guard(t)
	g.dispatch()
	g.dispatch()
	p := g.principal(auth.Agent, "agent://a", "mallory")
	bystander := g.connect(nats.Token(g.principal(auth.Agent, "agent://b", "bystander").Family))
	var got atomic.Int64
	dispatcher := g.as(g.keys.Dispatcher)
	_, err := dispatcher.Subscribe("tb.call.>", func(*nats.Msg) { got.Add(1) })
	if err == nil {
		err = dispatcher.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	const calls = 800_000
	for n := range int64(calls) {
		if err := bystander.Publish("tb.call.default.agent_3a_2f_2fb.echo", nil); err != nil {
			t.Fatal(err)
		}
		if n%10_000 == 0 {
			g.until("dispatchers keep up", func() bool { return n-got.Load() < 20_000 })
		}
	}
	g.until("dispatchers have all", func() bool { return got.Load() == calls })
	over := make(chan struct{})
	var flood sync.WaitGroup
	flood.Go(func() { // also when the server ends a connection because it does not read all refusals
		for {
			nc, err := nats.Connect(g.url, nats.NoReconnect(), quiet, nats.Token(p.Family))
			for err == nil {
				err = nc.Publish("tb.call.others.x.y", nil)
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	g.until("both dispatchers refuse it", func() bool {
		return strings.Count(g.said.text(), "are closed and refused") == 2
	})
	close(over)
	flood.Wait()
	for range 10 {
		if nc, err := nats.Connect(g.url, nats.NoReconnect(), quiet, nats.Token(p.Family)); err == nil {
			nc.Close()
			t.Fatal("it is let in again")
		}
	}
	if err := bystander.FlushTimeout(5 * time.Second); err != nil {
		t.Error(err)
	}
}

// A client whose large messages no dispatcher gets is closed, and its family refused. A client that sends more of them,
// which a dispatcher gets, is not.
func TestFloodOfLargeMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("with these bounds a flood takes a minute of CPU under the race detector; .ci/cover runs it without")
	}
	g := guard(t)
	g.dispatch()
	const calls, size = 1500, 500 << 10
	body := make([]byte, size)
	bystander := g.connect(nats.Token(g.principal(auth.Agent, "agent://b", "bystander").Family))
	var got atomic.Int64
	dispatcher := g.as(g.keys.Dispatcher)
	_, err := dispatcher.Subscribe("tb.call.*.*.heard", func(*nats.Msg) { got.Add(1) })
	if err == nil {
		err = dispatcher.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	for n := range int64(calls) {
		if err := bystander.Publish("tb.call.default.agent_3a_2f_2fb.heard", body); err != nil {
			t.Fatal(err)
		}
		g.until("dispatchers keep up", func() bool { return n-got.Load() < 4 })
	}
	mallory := g.connect(nats.Token(g.principal(auth.Agent, "agent://a", "mallory").Family))
	for range calls {
		if mallory.Publish("tb.call.default.agent_3a_2f_2fa.unheard", body) != nil {
			break // it was closed already
		}
	}
	g.until("it is refused", func() bool { return strings.Contains(g.said.text(), "family=mallory") })
	g.until("it is closed", mallory.IsClosed)
	if err := bystander.FlushTimeout(5 * time.Second); err != nil || strings.Contains(g.said.text(), "family=bystander") {
		t.Errorf("%v\n%s", err, g.said.text())
	}
}
