package natsserver_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// Streams may reserve more than the disk has, because they rarely use what they reserve.
func TestStreamLargerThanTheDisk(t *testing.T) {
	srv, err := natsserver.Start(natsserver.Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Stop()
	js, end := connect(t, srv)
	defer end()
	large := jetstream.StreamConfig{Name: "LARGE", Subjects: []string{"large"}, Storage: jetstream.FileStorage,
		MaxBytes: 1 << 40}
	if _, err := js.CreateStream(t.Context(), large); err != nil {
		t.Error(err)
	}
}

// The server's warnings are logged: here about a folder in its storage that is not a stream.
func TestLog(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "jetstream", "$G", "streams", "BROKEN"), 0o700); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	srv, err := natsserver.Start(natsserver.Options{StoreDir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	srv.Stop()
	if said := log.String(); !strings.Contains(said, "level=WARN") || !strings.Contains(said, "BROKEN") {
		t.Errorf("the log is %q", said)
	}
}

// A client whose messages are refused does not fill the log.
func TestLogIsBounded(t *testing.T) {
	var log bytes.Buffer
	srv, err := natsserver.Start(natsserver.Options{
		Config: `listen: "127.0.0.1:-1", jetstream: {store_dir: "` + t.TempDir() + `"}, authorization: {users: [
			{user: a, password: b, permissions: {publish: {deny: ">"}}}]}`,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(srv.URL(), nats.UserInfo("a", "b"), nats.ErrorHandler(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	publish := func(n int) {
		for range n {
			if err := nc.Publish("x", nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	publish(50_000)
	<-time.After(100 * time.Millisecond) // by then the limit permits a few more lines
	publish(10)
	nc.Close()
	srv.Stop()
	said := log.String()
	if n := strings.Count(said, "Publish Violation"); n < 10_000 || n > 15_000 {
		t.Errorf("%d of 50,000 refused messages are logged", n)
	}
	if !strings.Contains(said, "lines were left out") {
		t.Error("the log does not say that lines were left out")
	}
}

// The log has what the server refuses to clients, and leaves out what it refuses to doctor.
func TestLogLeavesOutDoctor(t *testing.T) {
	var log bytes.Buffer
	srv, err := natsserver.Start(natsserver.Options{
		Config: `listen: "127.0.0.1:-1", jetstream: {store_dir: "` + t.TempDir() + `"}, authorization: {users: [
			{user: a, password: b, permissions: {publish: {deny: ">"}, subscribe: {deny: "y"}}}]}`,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for subject, name := range map[string]string{"of.doctor": natsserver.Doctor, "of.client": "client"} {
		nc, err := nats.Connect(srv.URL(), nats.UserInfo("a", "b"), nats.ErrorHandler(nil), nats.Name(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := nc.SubscribeSync("y"); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		nc.Close()
	}
	srv.Stop()
	said := log.String()
	if strings.Contains(said, natsserver.Doctor) || !strings.Contains(said, "of.client") ||
		!strings.Contains(said, "Subscription Violation") {
		t.Error(said)
	}
}

// A server that was killed has streams whose index is older than their messages. It warns of each, and rebuilds it: the
// log has that for those who want all.
func TestLogOfKilledServer(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	old := map[string][]byte{"index.db": nil, "thw.db": nil} // the second one has the times at which messages expire
	for n := range uint64(3) {
		srv, err := natsserver.Start(natsserver.Options{StoreDir: dir,
			Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		if err != nil {
			t.Fatal(err)
		}
		if has := publishX(t, srv); has != n+1 {
			t.Errorf("start %d: the stream has %d messages", n, has)
		}
		srv.Stop()
		for name := range old {
			index := filepath.Join(dir, "jetstream", "$G", "streams", "X", "msgs", name)
			if n == 0 {
				old[name], err = os.ReadFile(index)
			} else {
				err = os.WriteFile(index, old[name], 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if said := log.String(); !strings.Contains(said, "Stream state outdated") ||
		!strings.Contains(said, "TTL state is outdated") || strings.Contains(said, "level=WARN") {
		t.Error(said)
	}
}

// connect opens a connection inside the process. The caller ends it.
func connect(t *testing.T, srv *natsserver.Server) (js jetstream.JetStream, end func()) {
	t.Helper()
	nc, err := nats.Connect(srv.URL(), srv.InProcess())
	if err != nil {
		t.Fatal(err)
	}
	if js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	return js, nc.Close
}

// publishX stores a message in the stream X, and returns the number of its messages.
func publishX(t *testing.T, srv *natsserver.Server) uint64 {
	t.Helper()
	js, end := connect(t, srv)
	defer end()
	stream, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{
		Name: "X", Subjects: []string{"x"}, AllowMsgTTL: true,
	})
	if err == nil {
		_, err = js.Publish(t.Context(), "x", []byte("m"), jetstream.WithMsgTTL(time.Hour))
	}
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Msgs
}

// Servers of a cluster replicate streams, and advertise no other server to clients.
func TestCluster(t *testing.T) {
	var all []natsserver.Cluster
	var routes []string
	for i := range 3 {
		port := freePort(t)
		all = append(all, natsserver.Cluster{Name: fmt.Sprint("nats-", i+1), Port: port})
		routes = append(routes, fmt.Sprint("nats://127.0.0.1:", port))
	}
	var urls []string
	for _, c := range all {
		c.Routes = routes
		srv, err := natsserver.Start(natsserver.Options{StoreDir: t.TempDir(), Cluster: c})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Stop)
		urls = append(urls, srv.URL())
	}
	nc, err := nats.Connect(urls[0])
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for tries := 60; ; tries-- { // until they have elected a leader
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "KEPT", Subjects: []string{"kept"}, Replicas: 3})
		cancel()
		if err == nil {
			break
		}
		if tries == 0 {
			t.Fatal(err)
		}
	}
	if known := nc.DiscoveredServers(); len(known) > 0 {
		t.Errorf("the client was told of %v", known)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
