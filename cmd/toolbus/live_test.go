package main

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"testing"
)

// live is a command that runs until stop, which interrupts it and returns its exit code.
type live struct {
	t    *testing.T
	mu   sync.Mutex
	out  strings.Builder
	grew chan struct{}
	stop func() (code int)
}

// live starts a command line, on a terminal of a size or on none.
func (s shell) live(line string, size func() (int, int)) *live {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	l := &live{t: s.t, grew: make(chan struct{}, 1)}
	var problems strings.Builder
	env := environment{
		stdin: strings.NewReader(""), stdout: l, stderr: &problems, url: s.url, home: cmp.Or(s.home, s.t.TempDir()),
		credentials: s.credentials, terminal: size != nil, size: size,
	}
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, env, strings.Fields(line)) }()
	l.stop = sync.OnceValue(func() int {
		cancel()
		code := <-ended
		if code != 0 {
			s.t.Errorf("%s: %s", line, &problems)
		}
		return code
	})
	s.t.Cleanup(func() { l.stop() })
	return l
}

// Write implements io.Writer.
func (l *live) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.grew <- struct{}{}:
	default:
	}
	return l.out.Write(p)
}

// said returns the output so far.
func (l *live) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// until waits until the output is as it has to be.
func (l *live) until(is func(said string) bool) {
	l.t.Helper()
	for !is(l.said()) {
		select {
		case <-l.grew:
		case <-l.t.Context().Done():
			l.t.Fatalf("it said %s", l.said())
		}
	}
}
