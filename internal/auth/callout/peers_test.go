package callout_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/auth/callout"
)

// peers runs a dispatcher that looks for others that hang, until stop is called or the test ends. It hears the others
// when peers returns.
func (g *guarded) peers(name string, named *nats.Conn) (stop func()) {
	g.t.Helper()
	system := g.as(g.keys.System)
	beats, err := system.SubscribeSync("toolbus.beat")
	if err := errors.Join(err, system.Flush()); err != nil {
		g.t.Fatal(err)
	}
	p := callout.NewPeers(g.as(g.keys.System), name, slog.New(slog.NewTextHandler(g.said, nil)))
	p.Name(named)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	g.t.Cleanup(stop)
	for sent := 0; sent < 2; { // the first one is of Name, and the second one comes after the subscription
		m, err := beats.NextMsg(10 * time.Second)
		if err != nil {
			g.t.Fatal(err)
		}
		if strings.Contains(string(m.Data), fmt.Sprintf(`"name":%q`, name)) {
			sent++
		}
	}
	return stop
}

// beat is a heartbeat of a dispatcher that hangs after it. It names a connection, others at further servers, and the
// server of the connection that it came over.
func (g *guarded) beat(system *nats.Conn, id, server string, named *nats.Conn, further ...string) {
	g.t.Helper()
	cid, err := named.GetClientID()
	if err != nil {
		g.t.Fatal(err)
	}
	connections := fmt.Sprintf(`{"server":%q,"cid":%d}`, named.ConnectedServerId(), cid)
	for _, other := range further {
		connections += fmt.Sprintf(`,{"server":%q,"cid":1}`, other)
	}
	body := fmt.Sprintf(`{"id":%q,"server":%q,"connections":[%s]}`, id, server, connections)
	if err := system.Publish("toolbus.beat", []byte(body)); err != nil {
		g.t.Fatal(err)
	}
	if err := system.Flush(); err != nil {
		g.t.Fatal(err)
	}
}

// askedOf returns the requests to a server that does not answer.
func (g *guarded) askedOf(system *nats.Conn, server string) <-chan *nats.Msg {
	g.t.Helper()
	asked := make(chan *nats.Msg, 100)
	if _, err := system.ChanSubscribe("$SYS.REQ.SERVER."+server+".IDZ", asked); err != nil {
		g.t.Fatal(err)
	}
	return asked
}

// await waits for a request.
func (g *guarded) await(asked <-chan *nats.Msg) {
	g.t.Helper()
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		g.t.Fatal("a server that does not answer was asked no longer")
	}
}

// A dispatcher that hangs loses its connections after a second. One that sends heartbeats keeps them, and so does one
// that has stopped, or one of whose servers does not answer or is gone.
func TestPeers(t *testing.T) {
	g := guard(t)
	conn := func() *nats.Conn { return g.as(g.keys.Dispatcher) }
	hangs, alive, stopped, stalled, gone, half := conn(), conn(), conn(), conn(), conn(), conn()
	g.peers("d-alive", alive)
	g.peers("d-other", conn())
	stop := g.peers("d-stopped", stopped)
	system := g.as(g.keys.System)
	asked, askedHalf := g.askedOf(system, "STALLED"), g.askedOf(system, "HALF")
	stop()
	g.beat(system, "stalled", "STALLED", stalled)
	g.beat(system, "gone", "GONE", gone)
	g.beat(system, "half", system.ConnectedServerId(), half, "HALF")
	began := time.Now()
	g.beat(system, "hangs", system.ConnectedServerId(), hangs)
	g.until("the connection of the dispatcher that hangs is closed", hangs.IsClosed)
	if took := time.Since(began); took < 750*time.Millisecond {
		t.Errorf("closed after %s", took)
	}
	for range 2 * 6 { // two dispatchers have asked the servers that do not answer for longer than the other one
		g.await(asked)
		g.await(askedHalf)
	}
	for name, nc := range map[string]*nats.Conn{
		"alive": alive, "stopped": stopped, "stalled": stalled, "gone": gone, "half": half,
	} {
		if err := nc.Flush(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !g.said.has("a dispatcher hangs") {
		t.Error(g.said.text())
	}
}

// A dispatcher that was killed is not logged as one that hangs.
func TestKilledPeer(t *testing.T) {
	g := guard(t)
	killed := g.as(g.keys.Dispatcher)
	g.peers("d-peer", g.as(g.keys.Dispatcher))
	system := g.as(g.keys.System)
	g.beat(system, "killed", system.ConnectedServerId(), killed)
	killed.Close()
	g.until("it is logged", func() bool { return g.said.has("dispatcher=killed") })
	if !g.said.has("it died") || g.said.has("a dispatcher hangs") || g.said.has("err=") {
		t.Error(g.said.text())
	}
}

// The log has the instance name of a dispatcher, which its heartbeats name.
func TestPeerIsNamed(t *testing.T) {
	g := guard(t)
	system := g.as(g.keys.System)
	g.peers("d-peer", g.as(g.keys.Dispatcher)) // it waits for heartbeats with this name
	body := fmt.Sprintf(`{"id":"x","name":"d-other","server":%q,"connections":[{"server":%[1]q,"cid":999999}]}`,
		system.ConnectedServerId())
	if err := system.Publish("toolbus.beat", []byte(body)); err != nil {
		t.Fatal(err)
	}
	g.until("its name is logged", func() bool { return g.said.has("dispatcher=d-other") })
}
