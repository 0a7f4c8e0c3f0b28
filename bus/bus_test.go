package bus_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Ensuring twice changes nothing; a stream that would break a promise is refused by name.
func TestTopology(t *testing.T) {
	f := bustest.Start(t)
	if err := bus.Ensure(t.Context(), f.JS, bus.TopologyOptions{CallsBytes: 1 << 20}); err != nil {
		t.Errorf("another size: %v", err)
	}
	for _, name := range []string{subjects.Partition(0).Stream(), subjects.AuditStream, subjects.ChunksStream,
		subjects.DeadStream, subjects.PayloadsStream, subjects.PoolsStream} {
		if _, err := f.JS.Stream(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	stream, err := f.JS.Stream(t.Context(), subjects.Partition(0).Stream())
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.AllowDirect, cfg.Discard = true, jetstream.DiscardOld
	if _, err := f.JS.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	err = bus.Ensure(t.Context(), f.JS, bus.TopologyOptions{})
	if err == nil || !strings.Contains(err.Error(), "allow_direct") || !strings.Contains(err.Error(), "discard") {
		t.Errorf("got %v", err)
	}
}

// Heartbeats find room in a bucket that somebody else has filled.
func TestFullPools(t *testing.T) {
	f := bustest.Start(t)
	stream, err := f.JS.Stream(t.Context(), subjects.PoolsStream)
	if err != nil {
		t.Fatal(err)
	}
	small := stream.CachedInfo().Config
	small.MaxBytes = 8 << 10
	if _, err := f.JS.UpdateStream(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	for n := range 100 {
		_ = f.NC.Publish(subjects.PoolSubject("default", fmt.Sprint("other", n)), make([]byte, 500))
	}
	if err := f.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	pools, err := heartbeat.OpenStore(t.Context(), f.JS, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := pools.Beat(t.Context(), "default", "e1"); err != nil {
		t.Error(err)
	}
}

// The bucket is readable with the stock KV API.
func TestStockKV(t *testing.T) {
	f := bustest.Start(t)
	s := f.Admit(1, envelope.PriorityNormal)
	bucket, err := f.JS.KeyValue(t.Context(), subjects.Partition(0).Bucket())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := bucket.Keys(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatalf("%v, %v", keys, err)
	}
	entry, err := bucket.Get(t.Context(), keys[0])
	if err != nil || entry.Revision() != s.Seq || !strings.Contains(string(entry.Value()), "request") {
		t.Errorf("%+v, %v", entry, err)
	}
}

func TestNoJetStream(t *testing.T) {
	if _, err := bus.Dial("nats://127.0.0.1:1", "x"); err == nil {
		t.Error("connected to nothing")
	}
}

// nothing is a dialer that reaches no server.
type nothing struct{}

// Dial implements nats.CustomDialer.
func (nothing) Dial(string, string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
}

// A server that does not answer is to be checked. Only one on this host may be that of toolbus dev.
func TestHintWhereNoServerAnswers(t *testing.T) {
	const ofDev = "`toolbus dev` starts one, and prints export TOOLBUS_URL=… if its port is not 4280; otherwise"
	for servers, want := range map[string]string{
		"nats://127.0.0.1:4280":               "`nc -zv 127.0.0.1 4280` shows whether anything listens there; " + ofDev,
		"nats://localhost:4281":               ofDev,
		"nats://user:secret@bus.example:4333": "this server does not answer: `nc -zv bus.example 4333` shows",
		"bus.example, nats://b:1":             "these servers do not answer: see in its log",
		"nats://a, nats://b:1":                "these servers do not answer: `nc -zv a 4222` shows",
		"nats://localhost, nats://b:1":        "these servers do not answer: `nc -zv localhost 4222` shows",
	} {
		_, err := bus.Dial(servers, "x", nats.SetCustomDialer(nothing{}))
		if says := bus.ConnectHint(err); !bus.IsUnreachable(err) || !strings.Contains(says, want) ||
			strings.Contains(says, "secret") || strings.Contains(says, "toolbus dev") != strings.Contains(want, ofDev) {
			t.Errorf("%s: %v: %s", servers, err, says)
		}
	}
	token := nats.TokenHandler(func() string { return "t" })
	key := nats.Nkey("U", func([]byte) ([]byte, error) { return nil, nil })
	for _, test := range []struct {
		server    string
		with      nats.Option
		want, not string
	}{
		{"nats://127.0.0.1:4280", token, ofDev, "nats-server"},
		{"nats://127.0.0.1:4222", token, "start it, or correct its name", "toolbus dev"},
		{"nats://127.0.0.1:4222", key, "start it with `nats-server -c FILE`, its log says why", "toolbus dev"},
		{"nats://bus.example:4222", key, "TOOLBUS_URL or the context", "Connect"},
		{"http://127.0.0.1:4280", token, "use nats:// in place of http:// in the URL of the server", "toolbus dev"},
		{"nats://a, https://b:1", token, "use nats:// in place of https://", "a 4222"},
	} {
		_, err := bus.Dial(test.server, "x", nats.SetCustomDialer(nothing{}), test.with)
		if says := bus.ConnectHint(err); !strings.Contains(says, test.want) || strings.Contains(says, test.not) {
			t.Errorf("%s: %v: %s", test.server, err, says)
		}
	}
}

// A server that does not know the key of a process has other secrets: the hint does not speak of tokens.
func TestHintForUnknownKey(t *testing.T) {
	key := func() (nkeys.KeyPair, string) {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return pair, public
	}
	_, known := key()
	srv := natstest.Start(t, func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: known}} })
	pair, public := key()
	_, err := bus.Dial(srv.URL, "x", nats.Nkey(public, pair.Sign))
	if says := bus.ConnectHint(err); !strings.Contains(says, "--secrets-dir") || strings.Contains(says, "token") {
		t.Errorf("%v: %s", err, says)
	}
}

// What is secret in a URL is not shown.
func TestRedacted(t *testing.T) {
	for servers, want := range map[string]string{
		"nats://127.0.0.1:4222":                        "nats://127.0.0.1:4222",
		"nats://user:secret@a:4222,nats://b:4222":      "nats://user:xxxxx@a:4222,nats://b:4222",
		"nats://a:4222, nats://secret@b:4222":          "nats://a:4222,nats://xxxxx@b:4222",
		"user:secret@a:4222":                           "xxxxx@a:4222",
		"nats://user:sec%ret@a:4222":                   "xxxxx@a:4222",
		"garbage":                                      "garbage",
		"nats://user:secret@127.0.0.1:1,tls://u:p@b:1": "nats://user:xxxxx@127.0.0.1:1,tls://u:xxxxx@b:1",
	} {
		if got := bus.Redacted(servers); got != want {
			t.Errorf("%s is shown as %s, want %s", servers, got, want)
		}
	}
	for _, server := range []string{"nats://user:secret@127.0.0.1:1", "user:secret@127.0.0.1:1",
		"nats://user:secret%@127.0.0.1:1"} {
		if _, err := bus.Dial(server, "x"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", server, err)
		}
	}
}

// A server that does not take the largest message is refused at the start: calls would hang on it.
func TestSmallMessages(t *testing.T) {
	for most, enough := range map[int32]bool{64 << 10: false, 768<<10 - 1: false, 768 << 10: true, 1 << 20: true} {
		srv := natstest.Start(t, func(o *server.Options) { o.MaxPayload = most })
		nc, err := bus.Dial(srv.URL, "x")
		if enough {
			if err != nil {
				t.Errorf("%d bytes: %v", most, err)
				continue
			}
			nc.Close()
		} else if err == nil || !strings.Contains(err.Error(), "max_payload") {
			t.Errorf("%d bytes: %v", most, err)
		}
	}
}

// DialCaller accepts a server that takes a request, which is the limit of the account of callers.
func TestSmallMessagesOfCallers(t *testing.T) {
	const most = envelope.MaxEnvelope + envelope.MaxHeaders
	for least, enough := range map[int32]bool{most - 1: false, most: true} {
		srv := natstest.Start(t, func(o *server.Options) { o.MaxPayload = least })
		nc, err := bus.DialCaller(srv.URL, "x")
		if (err == nil) != enough {
			t.Errorf("%d bytes: %v", least, err)
		}
		if err == nil {
			nc.Close()
		}
	}
}

// A server that may not reserve what the streams can grow to is refused with what to set.
func TestRefuseSmallStore(t *testing.T) {
	srv := natstest.Start(t, func(o *server.Options) { o.JetStreamMaxStore = 1 << 30 })
	js, err := jetstream.New(srv.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	err = bus.Ensure(t.Context(), js, bus.TopologyOptions{})
	if err == nil || !strings.Contains(err.Error(), "4096 MiB") || !strings.Contains(err.Error(), "max_file_store") {
		t.Errorf("got %v", err)
	}
}

// precision is how exactly a test takes the clock to be measured: within half of the quickest round trip,
// which takes its time on a busy machine.
const precision = 500 * time.Millisecond

// A skewed local clock does not move bus time.
func TestClock(t *testing.T) {
	f := bustest.Start(t)
	for _, skew := range []time.Duration{0, 30 * time.Second, -30 * time.Second} {
		c, err := bus.NewClock(t.Context(), f.JS, func() time.Time { return time.Now().Add(skew) })
		if err != nil {
			t.Fatal(err)
		}
		before, now, after := time.Now(), c.Now(), time.Now()
		if now.Before(before.Add(-precision)) || now.After(after.Add(precision)) {
			t.Errorf("skew %s: bus time is %s off", skew, now.Sub(before))
		}
	}
}

// A server that asks for a certificate ends a connection without one. Where its alert is lost, the hint still names the
// flags.
func TestHintWithoutCertificate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, `INFO {"tls_required":true}`+"\r\n") // the client may have gone
			_ = c.Close()
		}
	})
	defer serving.Wait()
	defer l.Close()
	_, err = bus.Dial("tls://"+l.Addr().String(), "test")
	if err == nil || !strings.Contains(bus.ConnectHint(err), "--tls-cert and --tls-key") {
		t.Errorf("%v: %s", err, bus.ConnectHint(err))
	}
}
