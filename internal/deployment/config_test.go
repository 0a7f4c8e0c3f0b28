package deployment_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

func newKeys(t testing.TB) (*deployment.Keys, deployment.Public) {
	t.Helper()
	k, err := deployment.NewKeys("test")
	if err != nil {
		t.Fatal(err)
	}
	p, err := k.Public()
	if err != nil {
		t.Fatal(err)
	}
	return k, p
}

func config(t testing.TB, p deployment.Public, s deployment.Shape) string {
	t.Helper()
	text, err := deployment.Config("test", p, s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// as connects with a key of the server configuration.
func as(t testing.TB, url string, key nkeys.KeyPair) *nats.Conn {
	t.Helper()
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(url, nats.Nkey(public, key.Sign))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// The server accepts the configuration. It accepts clients with the keys in it, each in its account, and no others.
func TestStandalone(t *testing.T) {
	k, p := newKeys(t)
	text := config(t, p, deployment.Shape{Server: "one", Listen: "127.0.0.1:-1", Store: t.TempDir(), SyncAlways: true,
		MaxStore: 1 << 40, Monitor: "127.0.0.1:-1"})
	srv, err := natsserver.Start(natsserver.Options{Config: text})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	t.Cleanup(srv.Stop)
	js, err := jetstream.New(as(t, srv.URL(), k.Dispatcher))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Error(err)
	}
	if _, err := as(t, srv.URL(), k.System).Request("$SYS.REQ.SERVER.PING.CONNZ", nil, time.Second); err != nil {
		t.Error("the system account does not list connections:", err)
	}
	as(t, srv.URL(), k.Callout)
	stranger, _ := newKeys(t)
	public, _ := stranger.Dispatcher.PublicKey()
	for name, option := range map[string]nats.Option{
		"nobody": nats.Name("x"), "a token": nats.Token("x"), "another key": nats.Nkey(public, stranger.Dispatcher.Sign),
	} {
		if _, err := nats.Connect(srv.URL(), option, nats.Timeout(5*time.Second)); err == nil {
			t.Error("let in:", name)
		}
	}
}

// Three servers with this configuration elect a leader.
func TestCluster(t *testing.T) {
	k, p := newKeys(t)
	routes := []string{"nats://127.0.0.1:" + free(t), "nats://127.0.0.1:" + free(t), "nats://127.0.0.1:" + free(t)}
	var url string
	for i, r := range routes {
		srv, err := natsserver.Start(natsserver.Options{Config: config(t, p, deployment.Shape{
			Server: fmt.Sprint("n", i), Listen: "127.0.0.1:-1", Store: t.TempDir(), MaxStore: 1 << 40,
			Cluster: &deployment.Cluster{Listen: strings.TrimPrefix(r, "nats://"), Routes: routes},
		})})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Stop)
		url = srv.URL()
	}
	js, err := jetstream.New(as(t, url, k.Dispatcher))
	if err != nil {
		t.Fatal(err)
	}
	replicated(t, js)
}

// replicated waits until the servers have a leader and a stream.
func replicated(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	for tries := 60; ; tries-- {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3})
		if err == nil {
			return
		}
		if tries == 0 {
			t.Fatal(err)
		}
	}
}

// With TLS, the server's parser would open the files, so this test checks only the text.
func TestEncrypted(t *testing.T) {
	_, p := newKeys(t)
	secure := &deployment.TLS{Cert: "c", Key: "k", CA: "ca"}
	s := deployment.Shape{Server: "one", Listen: "0.0.0.0:4222", Store: "/var/lib/nats", TLS: secure,
		Cluster: &deployment.Cluster{Listen: "0.0.0.0:6222", Routes: []string{"nats://b:6222"}, TLS: secure}}
	if text := config(t, p, s); strings.Count(text, "verify: true") != 2 {
		t.Error(text)
	}
	for name, change := range map[string]func(*deployment.Shape){
		"tokens in the clear":  func(s *deployment.Shape) { s.TLS = nil },
		"an open cluster":      func(s *deployment.Shape) { s.Cluster.TLS = nil },
		"unverified servers":   func(s *deployment.Shape) { s.Cluster.TLS = &deployment.TLS{Cert: "c", Key: "k"} },
		"monitoring for all":   func(s *deployment.Shape) { s.Monitor = "0.0.0.0:8222" },
		"monitoring, all ways": func(s *deployment.Shape) { s.Monitor = ":8222" },
		"no name":              func(s *deployment.Shape) { s.Server = "" },
	} {
		wrong, cluster := s, *s.Cluster
		wrong.Cluster = &cluster
		change(&wrong)
		if _, err := deployment.Config("test", p, wrong); err == nil {
			t.Error("made:", name)
		}
	}
}

// parsed returns the server options that the configuration of a single server with a log results in.
func parsed(t *testing.T) *server.Options {
	t.Helper()
	_, p := newKeys(t)
	o := &server.Options{}
	if err := o.ProcessConfigString(config(t, p, deployment.Shape{Server: "one", Listen: "127.0.0.1:-1",
		Store: t.TempDir(), Log: "one.log"})); err != nil {
		t.Fatal(err)
	}
	return o
}

// Connections with tokens leave some connections of each server to dispatchers. The memory of a connection and the size
// of the log are limited.
func TestLimits(t *testing.T) {
	o, all := parsed(t), 0
	for _, a := range o.Accounts {
		switch most := a.MaxActiveConnections(); a.Name {
		case auth.Agents, auth.Exec, auth.Auditors:
			if most <= 0 {
				t.Errorf("account %s has no limit of connections", a.Name)
			}
			all += most
		case auth.Full:
			if most != 0 {
				t.Errorf("account %s takes %d connections", a.Name, most)
			}
		default:
			if most > 0 {
				t.Errorf("account %s has at most %d connections", a.Name, most)
			}
		}
	}
	if left := o.MaxConn - all; left < 100 {
		t.Errorf("%d of %d connections are left to dispatchers", left, o.MaxConn)
	}
	if o.MaxPending > 20<<20 || o.WriteDeadline > 5*time.Second || o.WriteDeadline == 0 {
		t.Errorf("a connection may take up %d bytes for %s", o.MaxPending, o.WriteDeadline)
	}
	if o.LogFile != "one.log" || o.LogSizeLimit != deployment.MaxLogBytes || o.LogMaxFiles != deployment.MaxLogFiles {
		t.Errorf("log %q, %d files of %d bytes", o.LogFile, o.LogMaxFiles, o.LogSizeLimit)
	}
}

// The server has listeners only for clients, and uses the auth callout.
func TestWalls(t *testing.T) {
	o := parsed(t)
	if o.AuthCallout == nil || o.AuthCallout.XKey == "" || len(o.AuthCallout.AuthUsers) != 3 || o.SystemAccount != "SYS" {
		t.Errorf("callout %+v, system account %q", o.AuthCallout, o.SystemAccount)
	}
	if o.HTTPPort != 0 || o.LeafNode.Port != 0 || o.Gateway.Name != "" || o.MQTT.Port != 0 || o.Websocket.Port != 0 {
		t.Error("it listens for more than clients")
	}
	names := map[string]bool{}
	for _, a := range o.Accounts {
		names[a.Name] = true
	}
	for _, want := range []string{"SYS", "AUTH", auth.TB, auth.Agents, auth.Exec, auth.Auditors,
		auth.Full} {
		if !names[want] {
			t.Error("no account", want)
		}
	}
}
