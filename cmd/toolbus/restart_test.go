package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
)

// logLines passes each line of a log on.
type logLines chan string

// Write implements io.Writer.
func (l logLines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

// A dispatcher has several connections. It warns once that the bus is lost, and once that it is back.
func TestLossIsLoggedOnce(t *testing.T) {
	srv, dir := unserved(t)
	lines := make(logLines, 1000)
	conn, err := toolbus.Connect(t.Context(), srv.URL, toolbus.Options{
		SecretsDir: filepath.Join(dir, "keys"),
		Logger:     slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	d, err := conn.Dispatcher(toolbus.NewToolset(), toolbus.DispatcherOptions{
		AllowAll: true, Ready: func(string) { close(ready) },
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- d.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() { conn.Close(); <-ended })
	<-ready
	srv.Restart()
	var said []string
	for late := time.After(30 * time.Second); ; {
		select {
		case line := <-lines:
			said = append(said, line)
			if !strings.Contains(line, "connected to the bus again") {
				continue
			}
		case <-late:
		}
		break
	}
	if all := strings.Join(said, ""); strings.Count(all, "connection to the bus lost") != 1 ||
		strings.Count(all, "connected to the bus again") != 1 {
		t.Errorf("logged\n%s", all)
	}
}
