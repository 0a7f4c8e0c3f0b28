package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
)

// begin makes a call and returns its reference, once it was accepted; end waits for the command.
func (s shell) begin(ctx context.Context, input string, flags ...string) (ref string, end func() (code int)) {
	s.t.Helper()
	accepted := make(chan string, 1)
	said := &until{text: "accepted: "}
	said.then = sync.OnceFunc(func() { accepted <- said.String() })
	done := make(chan int, 1)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	go func() {
		env := environment{stdin: strings.NewReader(""), stdout: io.Discard, stderr: said, url: s.url, home: s.home}
		done <- run(ctx, env, append([]string{"call", "play", "--input", input}, flags...))
	}()
	_, rest, _ := strings.Cut(<-accepted, "accepted: ")
	ref, _, _ = strings.Cut(rest, " ")
	return ref, func() int { defer cancel(); return <-done }
}

// The exit code shows that a call has no outcome yet, or had its outcome before it could be cancelled.
func TestExitOfResultAndCancel(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	ref, end := s.begin(t.Context(), `{"work_ms":30000}`, "--attempts", "1")
	check := func(line string, want int, says string) {
		t.Helper()
		code, stdout, stderr := s.do(strings.Fields(line)...)
		if code != want || !strings.Contains(stdout, says) {
			t.Errorf("%s: exit %d, want %d with %q: %s%s", line, code, want, says, stdout, stderr)
		}
	}
	check("result "+ref, exitOpen, "still open")
	check("result --json "+ref, exitOpen, `"accepted"`)
	check("cancel "+ref, 0, "cancelled")
	if code := end(); code != exitRetryable {
		t.Errorf("the cancelled call exits with %d", code)
	}
	check("cancel "+ref, 0, "ended already, with P-PRECOND-CANCELLED, effect")
	check("result "+ref, exitRetryable, "")
	ref, end = s.begin(t.Context(), `{"say":"hi","work_ms":300}`)
	if code := end(); code != 0 {
		t.Errorf("the call exits with %d", code)
	}
	check("result "+ref, 0, `"hi"`)
	check("cancel "+ref, exitTooLate, "ended already, with success")
	check("cancel --json "+ref, exitTooLate, `"told": "decided"`)
}

// With --json --stream, the output is one JSON value per line, and the last one is the outcome.
func TestStreamOfLines(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	for input, want := range map[string]envelope.Status{
		`{"say":"hi"}`: envelope.Success, `{"fail":"broken"}`: envelope.TerminalError, `{"say":1}`: envelope.InvalidRequest,
	} {
		_, stdout, stderr := s.do("call", "play", "--input", input, "--json", "--stream")
		lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
		for i, line := range lines {
			var part struct {
				Kind   envelope.ChunkKind `json:"kind"`
				Status envelope.Status    `json:"status"`
			}
			last := i == len(lines)-1
			err := json.Unmarshal([]byte(line), &part)
			if err != nil || last != (part.Status == want) || last == (part.Kind != "") {
				t.Errorf("%s: line %d of %d is %s: %v (%s)", input, i+1, len(lines), line, err, stderr)
			}
		}
	}
}

// The exit code of a call that is interrupted before a retry is that of an interruption, not of the last outcome.
func TestInterruptInBackoff(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ref, end := s.begin(ctx, `{"fail":"patient"}`, "--attempts", "5", "--timeout", "50s")
	for code := exitOpen; code == exitOpen; {
		code, _, _ = s.do("result", ref)
	}
	interrupt()
	if code := end(); code != exitInterrupted {
		t.Errorf("exit %d", code)
	}
	var stderr bytes.Buffer
	g := newGlobal(&environment{stdout: io.Discard, stderr: &stderr})
	newRoot(g) // which reads the flags
	e := envelope.NewError(envelope.CodeCapacity, "")
	r := envelope.Failure("", e, envelope.Provenance{Final: true}, envelope.Metrics{})
	r.Key = "k-0123456789abcdef"
	err := conclude(ctx, g, toolbus.Call{Key: r.Key}, r, "play.x")
	for _, says := range []string{"R-CAP-001", "k-0123456789abcdef", "play.x", "not tried again"} {
		if !errors.Is(err, exitError(exitInterrupted)) || !strings.Contains(stderr.String(), says) {
			t.Errorf("%v: it does not say %s: %s", err, says, &stderr)
		}
	}
}

// A call waits for an unreachable server until its deadline.
func TestCallWaitsForServer(t *testing.T) {
	s, stop := startDev(t, t.TempDir())
	stop()
	watch := timertest.StartStallMeter()
	defer watch.End()
	began := time.Now()
	code, stdout, stderr := s.do("call", "play", "--timeout", "700ms", "--json", "--key", "k-0123456789abcdef")
	took := time.Since(began)
	var r envelope.Response
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || r.Check() != nil {
		t.Fatalf("exit %d: %v, %s%s", code, err, stdout, stderr)
	}
	if code != exitRetryable || r.Error.Code != envelope.CodeTimeout || r.Error.Details.Effect != envelope.EffectNone ||
		r.Provenance.Final {
		t.Errorf("exit %d: %s", code, stdout)
	}
	if !strings.Contains(r.Error.Fix, "this server does not answer") ||
		!strings.Contains(stderr, "waiting for the server") || !strings.Contains(stderr, "k-0123456789abcdef") {
		t.Errorf("it says %s\n%s", stdout, stderr)
	}
	if took < 500*time.Millisecond || took > 3*time.Second+watch.Late() {
		t.Errorf("it took %s", took)
	}
}

// A call that is made before the server starts is answered when the server has started.
func TestServerComes(t *testing.T) {
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url, home := "nats://"+port.Addr().String(), t.TempDir()
	if err := port.Close(); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	said := &until{text: "waiting for the server", then: sync.OnceFunc(func() { close(waiting) })}
	code := make(chan int, 1)
	var out bytes.Buffer
	go func() {
		env := environment{stdin: strings.NewReader(""), stdout: &out, stderr: said, url: url, home: home}
		code <- run(t.Context(), env, []string{"call", "play", "--input", `{"say":"late"}`, "--timeout", "50s"})
	}()
	select {
	case <-waiting:
	case got := <-code:
		t.Fatalf("it does not wait: exit %d", got)
	}
	startDevAt(t, home, t.TempDir(), url[strings.LastIndexByte(url, ':')+1:])
	if got := <-code; got != 0 || !strings.Contains(out.String(), "late") {
		t.Errorf("exit %d: %s%s", got, &out, said)
	}
}

// If the server rejects the credentials, the error does not advise starting a bus.
func TestNotLetIn(t *testing.T) {
	srv := natstest.Start(t, func(o *server.Options) { o.Username, o.Password = "user", "right" })
	s := shell{t: t, url: strings.Replace(srv.URL, "nats://", "nats://user:wrong@", 1)}
	for _, args := range []string{"call play", "tools list", "audit replay", "doctor"} {
		code, stdout, stderr := s.do(strings.Fields(args)...)
		said := stdout + stderr
		if code != 1 || !strings.Contains(said, "Authorization Violation") ||
			strings.Contains(said, "`toolbus dev` starts") ||
			!strings.Contains(said, "nats://USER:PASSWORD@") || strings.Contains(said, "wrong") {
			t.Errorf("%s: exit %d, %s", args, code, said)
		}
	}
}

// When a bus is stopped while a call runs, it prints that it waits for the call.
func TestStopOfDevWaits(t *testing.T) {
	s, stop, said := startDevAt(t, t.TempDir(), t.TempDir(), "0")
	ref, end := s.begin(t.Context(), `{"say":"hi","work_ms":5000}`)
	for began := time.Now(); ; { // an accepted call may wait for its executor, which takes it no more then
		_, why, _ := s.do("why", ref)
		if strings.Contains(why, "runs at executor") || strings.Contains(why, "claimed by executor") {
			break
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("it does not run: %s", why)
		}
	}
	stop()
	if code := end(); code != 0 || !strings.Contains(said.String(), "calls in hand have ten seconds") {
		t.Errorf("the call exits with %d, dev says %s", code, said)
	}
}
