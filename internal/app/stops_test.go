package app

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
