package callout_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/auth/callout"
)

// peers runs a dispatcher that looks for others that hang, until stop is called or the test ends.
func (g *guarded) peers(named *nats.Conn) (stop func()) {
	g.t.Helper()
	p := callout.NewPeers(g.as(g.keys.System), slog.New(slog.NewTextHandler(g.said, nil)))
	p.Name(named)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	g.t.Cleanup(stop)
	return stop
}

// beat is a heartbeat of a dispatcher that hangs after it. It names a connection, and the server of the connection that
// it came over.
func (g *guarded) beat(system *nats.Conn, id, server string, named *nats.Conn) {
	g.t.Helper()
	cid, err := named.GetClientID()
	if err != nil {
		g.t.Fatal(err)
	}
	body := fmt.Sprintf(`{"id":%q,"server":%q,"connections":[{"server":%q,"cid":%d}]}`, id, server,
		named.ConnectedServerId(), cid)
	if err := system.Publish("toolbus.beat", []byte(body)); err != nil {
		g.t.Fatal(err)
	}
	if err := system.Flush(); err != nil {
		g.t.Fatal(err)
	}
}

// A dispatcher that hangs loses its connections after a second. One that sends heartbeats keeps them, and so does one
// that has stopped, or whose server does not answer or is gone.
func TestPeers(t *testing.T) {
	g := guard(t)
	conn := func() *nats.Conn { return g.as(g.keys.Dispatcher) }
	hangs, alive, stopped, stalled, gone := conn(), conn(), conn(), conn(), conn()
	g.peers(alive)
	g.peers(conn())
	stop := g.peers(stopped)
	system := g.as(g.keys.System)
	asked := make(chan *nats.Msg, 100)
	if _, err := system.ChanSubscribe("$SYS.REQ.SERVER.STALLED.IDZ", asked); err != nil {
		t.Fatal(err)
	}
	stop()
	g.beat(system, "stalled", "STALLED", stalled)
	g.beat(system, "gone", "GONE", gone)
	began := time.Now()
	g.beat(system, "hangs", system.ConnectedServerId(), hangs)
	g.until("the connection of the dispatcher that hangs is closed", hangs.IsClosed)
	if took := time.Since(began); took < 750*time.Millisecond {
		t.Errorf("closed after %s", took)
	}
	for range 2 * 6 { // two dispatchers have asked the server that does not answer for longer than the other one
		<-asked
	}
	for name, nc := range map[string]*nats.Conn{"alive": alive, "stopped": stopped, "stalled": stalled, "gone": gone} {
		if err := nc.Flush(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !g.said.has("a dispatcher hangs") {
		t.Error(g.said.text())
	}
}
