package bus

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// A process that starts while the servers have no leader waits until they have one, and says so.
func TestWaitsForALeader(t *testing.T) {
	servers := natstest.StartCluster(t, 3)
	js := servers[0].JetStream(t)
	servers[1].Stop()
	servers[2].Stop()
	for leaderless := false; !leaderless; {
		err := CheckLevel(t.Context(), js)
		if leaderless = err != nil; leaderless && !strings.Contains(err.Error(), "no leader") {
			t.Fatalf("got %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	said := make(logged, 10)
	done := make(chan error, 1)
	go func() {
		done <- Ensure(ctx, js, TopologyOptions{Replicas: 3, Logger: slog.New(slog.NewTextHandler(said, nil))})
	}()
	select {
	case line := <-said:
		if !strings.Contains(line, "waiting for the servers to have a leader") {
			t.Errorf("it says %s", line)
		}
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	}
	servers[1].Restart()
	servers[2].Restart()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// logged is a log, line by line.
type logged chan string

func (l logged) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// A server, an account or a user without JetStream is none that has no leader: nobody waits for it, and it is said
// which.
func TestNoJetStreamForUs(t *testing.T) {
	user := func(p *server.Permissions) jetstream.JetStream {
		srv := natstest.Start(t, func(o *server.Options) {
			o.Users = []*server.User{{Username: "u", Password: "u", Permissions: p}}
		})
		js, err := jetstream.New(srv.Connect(t, nats.UserInfo("u", "u")))
		if err != nil {
			t.Fatal(err)
		}
		return js
	}
	allow := func(subjects ...string) *server.SubjectPermission { return &server.SubjectPermission{Allow: subjects} }
	for says, js := range map[string]jetstream.JetStream{
		"put a jetstream block into the server's configuration": natstest.Start(t,
			func(o *server.Options) { o.JetStream = false }).JetStream(t),
		"`jetstream: enabled` into the account": accountWith(t, ""),
		`Publish to "$JS.API.INFO"`:             user(&server.Permissions{Publish: allow("tb.>")}),
		`Subscription to "_INBOX.`:              user(&server.Permissions{Subscribe: allow("tb.>")}),
		`Publish to "$JS.API.STREAM.CREATE.KV_calls"`: user(&server.Permissions{Publish: allow("$JS.API.INFO",
			"$JS.API.STREAM.INFO.>")}),
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			err := Ensure(context.WithoutCancel(t.Context()), js, TopologyOptions{})
			if err == nil || !strings.Contains(err.Error(), says) || time.Since(begun) > electionTime/2 {
				t.Errorf("after %s: %v", time.Since(begun), err)
			}
		})
	}
}

// A single server that does not answer is no cluster without a leader: the error says to restart it.
func TestSilentServer(t *testing.T) {
	for clustered, want := range map[bool]string{true: "start the other servers", false: "restart the server"} {
		err := noJetStream(context.DeadlineExceeded, nil, clustered)
		if !strings.Contains(err.Error(), want) || !clustered && strings.Contains(err.Error(), "cluster") {
			t.Errorf("clustered %t: %v", clustered, err)
		}
	}
}

// The error about replicas names the flag of the dispatcher.
func TestReplicasAreNamed(t *testing.T) {
	err := Compatible(jetstream.StreamConfig{Replicas: 1}, jetstream.StreamConfig{Name: "S", Replicas: 3})
	if err == nil || !strings.Contains(err.Error(), "the bus has --replicas 1: start the dispatchers with that") {
		t.Errorf("got %v", err)
	}
}

// A port that answers with another protocol is no server that is down.
func TestOtherProtocol(t *testing.T) {
	for name, says := range map[string]string{"ends": "", "speaks": "SSH-2.0-x\r\n"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				_, _ = c.Write([]byte(says))
				_ = c.Close()
			}
		}()
		_, err = Dial("nats://"+l.Addr().String(), "x")
		if hint := ConnectHint(err); !strings.Contains(hint, "another program") || strings.Contains(hint, "Connect") {
			t.Errorf("%s: %v: %s", name, err, hint)
		}
		_ = l.Close()
	}
}
