package app

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// logText is a log that a test waits for.
type logText struct {
	mu    sync.Mutex
	text  []byte
	wrote chan struct{}
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	timer.Notify(l.wrote)
	return len(p), nil
}

func (l *logText) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.text, []byte(text))
}

// await waits until text is in the log.
func (l *logText) await(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	for !l.has(text) {
		select {
		case <-l.wrote:
		case <-ctx.Done():
			t.Fatalf("not in the log: %s\n%s", text, l.text)
		}
	}
}

// A dispatcher that serves stands by when the log gets an event of an older build, and serves again when that
// has expired. It does not start over again and again, taking requests in between.
func TestStandsByAtAnOldEvent(t *testing.T) {
	srv, log := natstest.Start(t), &logText{wrote: make(chan struct{}, 1)}
	c, err := Connect("dispatcher", Options{Options: link.Options{
		URL: srv.URL, Logger: slog.New(slog.NewTextHandler(log, nil))}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- RunDispatcher(ctx, c, DispatcherOptions{
			AllowAll: true, Tools: tool.NewSet(), Version: "0.0.0", Ready: func() { close(ready) },
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	js := srv.JetStream(t)
	ack, err := js.PublishMsg(ctx, &nats.Msg{
		Subject: subjects.Key{Tool: "echo", ID: "id"}.Request(1, "1.0.0", "normal", "default"),
		Header:  nats.Header{subjects.HeaderEvent: {"2;f|x"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	log.await(ctx, t, "an older build wrote it")
	stream, err := js.Stream(ctx, ack.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(ctx, ack.Sequence); err != nil { // it has expired
		t.Fatal(err)
	}
	l, err := link.Establish(ctx, link.Options{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	caller, err := l.Client(client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = caller.Close() }() // its connection is closed next
	err = timer.Backoff{Pause: 50 * time.Millisecond}.Until(ctx, func(ctx context.Context) (bool, error) {
		_, err := caller.Tools(ctx)
		return err == nil, err
	})
	if err != nil || log.has("starting over") {
		t.Errorf("%v\n%s", err, log.text)
	}
}
