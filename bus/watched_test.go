package bus

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// lines hands on what is written, line by line.
type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

// What happens to a connection is logged, and the token in the URL of its server is not.
func TestWatched(t *testing.T) {
	const token = "s3cr3t"
	srv := natstest.Start(t, func(o *server.Options) { o.Authorization = token })
	logged := make(lines, 100)
	options := append(LogConnection(slog.New(slog.NewTextHandler(logged, nil))), nats.MaxReconnects(-1))
	nc, err := nats.Connect(strings.Replace(srv.URL, "://", "://"+token+"@", 1), options...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	srv.Restart()
	for lost := false; ; {
		line := <-logged
		if strings.Contains(line, token) {
			t.Errorf("the token is logged: %s", line)
		}
		lost = lost || strings.Contains(line, "lost")
		if strings.Contains(line, "again") {
			if !lost || !strings.Contains(line, "127.0.0.1") {
				t.Errorf("lost %t, %s", lost, line)
			}
			return
		}
	}
}

// Connections that share their options say once that the bus is lost, and once that all are connected again.
func TestWatchedTogether(t *testing.T) {
	srv := natstest.Start(t)
	logged := make(lines, 100)
	options := append(LogConnection(slog.New(slog.NewTextHandler(logged, nil))), nats.MaxReconnects(-1),
		nats.ReconnectWait(10*time.Millisecond))
	const conns = 5
	back := make(chan struct{}, conns)
	for range conns {
		nc, err := nats.Connect(srv.URL, options...)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		said := nc.Opts.ReconnectedCB
		nc.SetReconnectHandler(func(nc *nats.Conn) { said(nc); back <- struct{}{} })
	}
	srv.Restart()
	for range conns {
		<-back
	}
	close(logged)
	var all []string
	for line := range logged {
		all = append(all, line)
	}
	if len(all) != 2 || !strings.Contains(all[0], "lost") || !strings.Contains(all[1], "again") {
		t.Errorf("%d connections log %q", conns, all)
	}
}

// gate refuses all clients while refuses is true.
type gate struct{ refuses *atomic.Bool }

// Check implements server.Authentication.
func (g *gate) Check(server.ClientAuthentication) bool { return !g.refuses.Load() }

// A server that refuses a lost connection again and again is logged once.
func TestRefusedAgain(t *testing.T) {
	var refuses atomic.Bool
	srv := natstest.Start(t, func(o *server.Options) { o.CustomClientAuthentication = &gate{&refuses} })
	logged := make(lines, 100)
	refused := make(chan struct{}, 100)
	options := append(LogConnection(slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelWarn}))),
		nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.IgnoreAuthErrorAbort())
	nc, err := nats.Connect(srv.URL, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	said := nc.Opts.AsyncErrorCB
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		said(nc, sub, err)
		refused <- struct{}{}
	})
	refuses.Store(true)
	srv.Restart()
	for range 3 {
		<-refused
	}
	refuses.Store(false)
	all := ""
	for !strings.Contains(all, "again") {
		all += <-logged
	}
	if strings.Count(all, "the server refuses the connection: its credential") != 1 || strings.Count(all, "lost") != 1 {
		t.Error(all)
	}
}
