package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// start starts parts in their order, as a process does, until one fails, and returns what was stopped.
func start(fails error, parts ...string) (stopped []string, err error) {
	s := stops{log: slog.New(slog.DiscardHandler)}
	defer func() { err = s.stop(err) }()
	for _, part := range parts {
		if part == "broken" {
			return nil, fails
		}
		s.push(part, func() { stopped = append(stopped, part) })
	}
	return nil, nil
}

// A part that fails to start stops those before it, in reverse order, and its error is returned as it is.
func TestStopsAfterAFailedStart(t *testing.T) {
	broken := errors.New("no server")
	stopped, err := start(broken, "connection", "background", "intake", "broken", "never")
	if want := []string{"intake", "background", "connection"}; !slices.Equal(stopped, want) || err != broken {
		t.Errorf("stopped %q, %v", stopped, err)
	}
}

// A stop that fails or hangs is named, and the others are stopped all the same, once.
func TestStopThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stops{log: slog.New(slog.DiscardHandler)}
		var stopped []string
		release, cause, failed := make(chan struct{}), errors.New("of the process"), errors.New("in use")
		s.push("connection", func() { stopped = append(stopped, "connection") })
		s.push("audit record", func() { <-release })
		s.pushErr("intake", func() error { stopped = append(stopped, "intake"); return failed })
		began := time.Now()
		err := s.stop(cause)
		if took := time.Since(began); took != stopLimit {
			t.Errorf("it took %s", took)
		}
		if !slices.Equal(stopped, []string{"intake", "connection"}) || !errors.Is(err, cause) || !errors.Is(err, failed) {
			t.Errorf("stopped %q, %v", stopped, err)
		}
		for _, named := range []string{"stop intake: in use", "stop audit record: it has not stopped within 1m0s"} {
			if !strings.Contains(err.Error(), named) {
				t.Errorf("%v does not say %s", err, named)
			}
		}
		if err := s.stop(nil); err != nil || len(stopped) != 2 {
			t.Errorf("the second time: %v, %q", err, stopped)
		}
		close(release)
	})
}

// stopLog keeps the names of the parts that a process stops.
type stopLog struct {
	slog.Handler
	mu    sync.Mutex
	parts []string
}

func (s *stopLog) Enabled(context.Context, slog.Level) bool { return true }

func (s *stopLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if r.Message == "stopped" && a.Key == "part" {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.parts = append(s.parts, a.Value.String())
		}
		return true
	})
	return nil
}

// A dispatcher and an executor stop their parts in the order that the package comment gives.
func TestStopOrder(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, part := range regexp.MustCompile(`(?m)^//   - ([^:\n]+)`).FindAllStringSubmatch(string(text), -1) {
		want = append(want, part[1])
	}
	url := natstest.Start(t).URL
	first := run(t, url, func(ctx context.Context, c *Conn, ready func()) error {
		return RunDispatcher(ctx, c, DispatcherOptions{AllowAll: true, Tools: tool.NewSet(), Version: "0.0.0", Ready: ready})
	})
	second := run(t, url, func(ctx context.Context, c *Conn, ready func()) error {
		return RunExecutor(ctx, c, ExecutorOptions{Tools: tool.NewSet(), Ready: ready})
	})
	executor := second()
	if got := append(first(), executor...); !slices.Equal(got, want) {
		t.Errorf("stopped\n%q, documented\n%q", got, want)
	}
}

// run runs a process until stop, which returns the parts that it has stopped.
func run(t *testing.T, url string, process func(context.Context, *Conn, func()) error) (stop func() []string) {
	t.Helper()
	log := &stopLog{Handler: slog.DiscardHandler}
	c, err := Connect("process", Options{Options: link.Options{URL: url, Logger: slog.New(log)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- process(ctx, c, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	return func() []string {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		return log.parts
	}
}
