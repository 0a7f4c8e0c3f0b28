package app

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// fronted is a request connection with its main connection, and the messages that it takes on the subjects a.*.
type fronted struct {
	*requestConn
	t     *testing.T
	other *nats.Conn // a sender
	heard chan *nats.Msg
}

// newFronted opens a request connection; other sends to it.
func newFronted(t *testing.T, back, other *nats.Conn) *fronted {
	t.Helper()
	f, err := openRequestConn(back, "requests", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	w := &fronted{requestConn: f, t: t, other: other, heard: make(chan *nats.Msg, 100)}
	if _, err := f.nc.ChanSubscribe("a.*", w.heard); err != nil {
		t.Fatal(err)
	}
	if err := f.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return w
}

// hears reports an error unless a message arrives.
func (w *fronted) hears(when string) {
	w.t.Helper()
	if err := w.other.Publish("a.b", make([]byte, 200_000)); err != nil {
		w.t.Fatal(err)
	}
	select {
	case m := <-w.heard:
		if len(m.Data) != 200_000 {
			w.t.Errorf("%s: %d bytes came", when, len(m.Data))
		}
	case <-time.After(30 * time.Second):
		w.t.Fatal("nothing comes through " + when)
	}
}

// becomes waits until a connection is connected.
func becomes(t *testing.T, connected chan nats.Status) {
	t.Helper()
	select {
	case <-connected:
	case <-time.After(30 * time.Second):
		t.Fatal("not connected")
	}
}

// The request connection follows the main connection to another server, and reconnects if only it is lost.
func TestFrontFollows(t *testing.T) {
	servers := natstest.StartCluster(t, 3)
	back := servers[0].Connect(t)
	var stays *natstest.Server
	for _, s := range servers {
		if s.Name() != back.ConnectedServerName() {
			stays = s
		}
	}
	w := newFronted(t, back, stays.Connect(t, nats.DontRandomize()))
	same := func() bool { return w.nc.ConnectedServerId() == back.ConnectedServerId() }
	if !same() {
		t.Errorf("the front is at %q, the back at %q", w.nc.ConnectedServerName(), back.ConnectedServerName())
	}
	connected := w.nc.StatusChanged(nats.CONNECTED)
	if err := w.last.Close(); err != nil {
		t.Fatal(err)
	}
	becomes(t, connected)
	if !same() {
		t.Error("the front went elsewhere by itself")
	}
	for _, s := range servers {
		if s.Name() == back.ConnectedServerName() {
			s.Stop()
		}
	}
	for becomes(t, connected); !same(); becomes(t, connected) {
		continue
	}
}

// The filter drops the messages that it must drop and passes all others: without TLS, with TLS, and in process.
func TestFrontLeavesOut(t *testing.T) {
	certificate, pool := natstest.Certificate(t)
	srv := natstest.Start(t)
	secret := natstest.Start(t, func(o *server.Options) {
		o.TLSConfig, o.TLSTimeout = &tls.Config{Certificates: []tls.Certificate{certificate}}, 30
	})
	trusting := nats.Secure(&tls.Config{RootCAs: pool})
	for name, connect := range map[string]func() *nats.Conn{
		"in the clear": func() *nats.Conn { return srv.Connect(t) },
		"encrypted":    func() *nats.Conn { return secret.Connect(t, trusting) },
	} {
		t.Run(name, func(t *testing.T) {
			back := connect()
			w := newFronted(t, back, connect())
			w.hears("at first")
			taken := make(chan rpc.FilteredMessage, 1)
			w.taker.Store(&taker{
				judge: func(subject []byte, size int) rpc.FilterAction {
					return map[string]rpc.FilterAction{"a.drop": rpc.FilterDrop, "a.take": rpc.FilterTake}[string(subject)]
				},
				take: func(m rpc.FilteredMessage) { taken <- m },
			})
			for _, subject := range []string{"a.drop", "a.keep", "a.take", "a.keep"} {
				if err := w.other.Publish(subject, []byte("abc")); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if m := <-w.heard; m.Subject != "a.keep" || string(m.Data) != "abc" {
					t.Errorf("%s came with %d bytes", m.Subject, len(m.Data))
				}
			}
			if m := <-taken; m.Subject != "a.take" || string(m.Body) != "abc" || w.stats().InMsgs != 4 {
				t.Errorf("%+v was taken", m)
			}
			w.hears("behind what is left out")
		})
	}
}
