package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
)

// logLines passes each line of a log on.
type logLines chan string

// Write implements io.Writer.
func (l logLines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

// A process that starts before any dispatcher says that it waits for one, within two seconds and once.
func TestWaitForDispatcherIsLogged(t *testing.T) {
	t.Parallel()
	srv, dir := unserved(t)
	lines := make(logLines, 100)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := toolbus.Connect(ctx, srv.URL, toolbus.Options{
		CredentialsFile: filepath.Join(dir, "operator.token"),
		Logger:          slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if !errors.Is(err, bus.ErrUnanswered) {
		t.Error(err)
	}
	said := ""
	for len(lines) > 0 { // a dial in the background may still log
		said += <-lines
	}
	if strings.Count(said, "waiting for a dispatcher") != 1 || strings.Count(said, "\n") != 1 {
		t.Errorf("logged\n%s", said)
	}
}

// An executor that starts before any dispatcher says once that it waits for one, and serves when there is one.
func TestExecutorBeforeDispatchers(t *testing.T) {
	t.Parallel()
	srv, dir := unserved(t)
	token := filepath.Join(dir, "executor.token")
	if code, _, stderr := (shell{t: t}).do("credentials", "issue", "--secrets-dir", filepath.Join(dir, "keys"), "--role",
		"executor", "--pool", "default", "--actor", "executor://1", "--out", token); code != 0 {
		t.Fatal(stderr)
	}
	lines := make(logLines, 100)
	connected := make(chan error, 1)
	go func() {
		conn, err := toolbus.Connect(t.Context(), srv.URL, toolbus.Options{
			CredentialsFile: token, Logger: lines.warnings(),
		})
		if err == nil {
			conn.Close()
		}
		connected <- err
	}()
	select {
	case err := <-connected:
		t.Fatalf("without a dispatcher: %v", err)
	case <-time.After(8 * time.Second): // a client gives up after 6 s
	}
	dispatch(t, srv.URL, dir, slog.New(slog.DiscardHandler))
	if err := <-connected; err != nil {
		t.Error(err)
	}
	said := ""
	for len(lines) > 0 {
		said += <-lines
	}
	if strings.Count(said, "waiting for a dispatcher") != 1 {
		t.Errorf("logged\n%s", said)
	}
}

// warnings returns a logger of warnings and errors.
func (l logLines) warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// untilAgain returns what is logged until the process is connected again.
func (l logLines) untilAgain() string {
	said := ""
	for late := time.After(30 * time.Second); ; {
		select {
		case line := <-l:
			if said += line; strings.Contains(line, "connected to the bus again") {
				return said
			}
		case <-late:
			return said
		}
	}
}

// dispatch runs a dispatcher of a deployment, with one tool, until the test ends.
func dispatch(t *testing.T, url, dir string, log *slog.Logger) *toolbus.Toolset {
	t.Helper()
	tools := toolbus.NewToolset()
	if err := toolbus.Add(tools, toolbus.Tool{ID: "hello", Class: toolbus.Pure},
		func(_ context.Context, _ *toolbus.Run, in string) (string, error) { return "hello " + in, nil }); err != nil {
		t.Fatal(err)
	}
	conn, err := toolbus.Connect(t.Context(), url, toolbus.Options{SecretsDir: filepath.Join(dir, "keys"), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	d, err := conn.Dispatcher(tools, toolbus.DispatcherOptions{
		AllowAll: true, Ready: func(string) { close(ready) },
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- d.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() { conn.Close(); <-ended })
	<-ready
	return tools
}

// A dispatcher has several connections. It warns once that the bus is lost, and once that it is back.
func TestLossIsLoggedOnce(t *testing.T) {
	srv, dir := unserved(t)
	lines := make(logLines, 1000)
	dispatch(t, srv.URL, dir, lines.warnings())
	srv.Restart()
	if all := lines.untilAgain(); strings.Count(all, "connection to the bus lost") != 1 ||
		strings.Count(all, "connected to the bus again") != 1 {
		t.Errorf("logged\n%s", all)
	}
}
