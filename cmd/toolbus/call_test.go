package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
)

// A server that accepts a connection and sends nothing, such as a stopped one, does not keep a call beyond its timeout.
// The call gets the response of the library for a bus that does not answer.
func TestCallServerHangs(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := shell{t: t, url: "nats://" + silent.Addr().String()}
	began := time.Now()
	code, stdout, stderr := s.do("call", "play", "--timeout", "300ms", "--key", "k-0123456789abcdef", "--json")
	if took := time.Since(began); took < 300*time.Millisecond || took > bus.DialTime-time.Second {
		t.Errorf("it took %s", took)
	}
	var r envelope.Response
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	if code != exitRetryable || r.Error == nil || r.Error.Code != envelope.CodeTimeout ||
		r.Error.Details.Effect != envelope.EffectNone || r.Provenance.Final {
		t.Errorf("exit %d: %s", code, stdout)
	}
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(stderr, "key: k-0123456789abcdef") {
		t.Errorf("it does not say how to ask again: %s", stderr)
	}
}

// A server without a dispatcher, which takes 2 s to refuse a token, does not keep a call beyond its timeout. The error
// blames the dispatcher, and not the server.
func TestCallWithoutDispatcher(t *testing.T) {
	t.Parallel()
	srv, dir := unserved(t)
	s := shell{t: t, url: srv.URL}
	for _, timeout := range []time.Duration{time.Second, 3 * time.Second} {
		watch := timertest.StartStallMeter()
		began := time.Now()
		code, stdout, stderr := s.do("call", "play", "--timeout", timeout.String(), "--json",
			"--credentials", filepath.Join(dir, "operator.token"))
		took := time.Since(began)
		if late := watch.Late(); took < timeout-100*time.Millisecond || took > timeout+time.Second+late {
			t.Errorf("--timeout %s took %s", timeout, took)
		}
		watch.End()
		if code != exitRetryable || !strings.Contains(stdout, "no dispatcher answers") ||
			!strings.Contains(stdout, "start a dispatcher") || strings.Contains(stdout+stderr, "nc -zv") ||
			strings.Contains(stderr, "waiting for the server") {
			t.Errorf("--timeout %s: exit %d, %s%s", timeout, code, stdout, stderr)
		}
	}
}

// The timeout includes the time for connecting.
func TestCallConnects(t *testing.T) {
	for _, c := range []struct {
		timeout, took time.Duration
		servers       string
		dial, left    time.Duration
	}{
		{0, time.Second, "a", bus.DialTime, 0}, // the default of the tool
		{time.Microsecond, time.Second, "a", bus.DialTime, time.Microsecond},
		{time.Second, 200 * time.Millisecond, "a", time.Second, 800 * time.Millisecond},
		{time.Second, time.Second, "a,b", 500 * time.Millisecond, time.Millisecond},
		{time.Minute, 2 * time.Second, "a", bus.DialTime, 58 * time.Second},
	} {
		if dial, left := dialTime(c.timeout, c.servers), remaining(c.timeout, c.took); dial != c.dial || left != c.left {
			t.Errorf("%+v: %s to connect, %s left", c, dial, left)
		}
	}
}

// A command that is interrupted while it connects does not wait for the server.
func TestInterruptWhileConnecting(t *testing.T) {
	for _, line := range []string{"call play", "tools list", "audit replay", "dead list", "why play.x"} {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		connected := make(chan net.Conn)
		go func() {
			conn, err := silent.Accept()
			if err != nil {
				t.Error(err)
			}
			interrupt()
			connected <- conn
		}()
		env := environment{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard,
			url: "nats://" + silent.Addr().String(), home: t.TempDir()}
		began := time.Now()
		if code := run(ctx, env, strings.Fields(line)); code != exitInterrupted ||
			time.Since(began) > bus.DialTime-time.Second {
			t.Errorf("%s: exit %d after %s", line, code, time.Since(began))
		}
		_ = (<-connected).Close() // so that the command lets go of it
		_ = silent.Close()
	}
}
