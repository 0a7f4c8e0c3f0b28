package natstest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// startTimeout bounds one start of the server; the slowest machine needs a fraction of it.
const startTimeout = 30 * time.Second

// Server is one nats-server inside the test process. Its methods must be called from one
// goroutine at a time; connections may be used while it restarts.
type Server struct {
	// URL is where clients connect. It stays the same over restarts; do not change it.
	URL string

	t    testing.TB
	opts server.Options
	log  *logBuffer
	srv  *server.Server // nil while stopped
}

// Option changes the configuration of a Server before a start.
type Option func(*server.Options)

// SyncAlways makes the server fsync before it acknowledges, as production profiles that must
// survive a power cut do.
func SyncAlways() Option {
	return func(o *server.Options) { o.SyncAlways = true }
}

// Start runs a server until the test ends: JetStream on, file storage in t.TempDir, a free port
// on the loopback interface.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := prepare(t, options)
	s.start()
	s.URL = s.srv.ClientURL()
	return s
}

// prepare configures a server, which is stopped when t ends.
func prepare(t testing.TB, options []Option) *Server {
	t.Helper()
	s := &Server{
		t:   t,
		log: &logBuffer{},
		opts: server.Options{
			ServerName:             "natstest",
			Host:                   "127.0.0.1",
			Port:                   hold(t),
			JetStream:              true,
			StoreDir:               t.TempDir(),
			NoSigs:                 true,
			DisableJetStreamBanner: true,
			JetStreamMaxStore:      1 << 40, // on any disk
		},
	}
	for _, option := range options {
		option(&s.opts)
	}
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("nats-server log:\n%s", s.log)
		}
	})
	return s
}

// Restart stops the server if it runs and starts it again on the same directory and port, with its
// configuration changed by options. Existing connections reconnect by themselves.
func (s *Server) Restart(options ...Option) {
	s.t.Helper()
	s.Stop()
	for _, option := range options {
		option(&s.opts)
	}
	s.start()
}

// Dir is where the server keeps its streams.
func (s *Server) Dir() string { return s.opts.StoreDir }

// Stop shuts the server down and waits until all of it is gone. Stopping twice is harmless.
func (s *Server) Stop() {
	if s.srv == nil {
		return
	}
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	s.srv = nil
}

// Connect returns a connection that reconnects quickly and for ever, and is closed when t ends.
// Later options win over these defaults.
func (s *Server) Connect(t testing.TB, options ...nats.Option) *nats.Conn {
	t.Helper()
	defaults := []nats.Option{
		nats.MaxReconnects(-1),
		nats.ReconnectWait(10 * time.Millisecond),
		nats.ReconnectJitter(0, 0),
		nats.Timeout(startTimeout),
	}
	nc, err := nats.Connect(s.URL, append(defaults, options...)...)
	if err != nil {
		t.Fatalf("natstest: connect %s: %v", s.URL, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// JetStream returns a JetStream context on a connection of its own.
func (s *Server) JetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(s.Connect(t))
	if err != nil {
		t.Fatalf("natstest: jetstream: %v", err)
	}
	return js
}

// start runs a new server.
func (s *Server) start() {
	s.t.Helper()
	srv, err := server.NewServer(s.opts.Clone())
	if err != nil {
		s.t.Fatalf("natstest: configure: %v", err)
	}
	srv.SetLoggerV2(s.log, false, false, false)
	srv.Start()
	s.srv = srv
	if !srv.ReadyForConnections(startTimeout) {
		s.t.Fatalf("natstest: the server did not start within %v", startTimeout)
	}
}

// logLines is how much of the server's log a failed test shows.
const logLines = 200

// logBuffer keeps the last lines of the server's log. It implements server.Logger; Fatalf does
// not end the process, Start reports that the server is not ready instead.
type logBuffer struct {
	mu    sync.Mutex
	lines []string
}

func (b *logBuffer) add(level, format string, args []any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) == logLines {
		b.lines = append(b.lines[:0], b.lines[1:]...)
	}
	stamp := time.Now().Format("15:04:05.000")
	b.lines = append(b.lines, fmt.Sprintf("%s [%s] %s\n", stamp, level, fmt.Sprintf(format, args...)))
}

// String returns what was logged.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "")
}

// The methods of server.Logger.

func (b *logBuffer) Noticef(format string, v ...any) { b.add("INF", format, v) }
func (b *logBuffer) Warnf(format string, v ...any)   { b.add("WRN", format, v) }
func (b *logBuffer) Fatalf(format string, v ...any)  { b.add("FTL", format, v) }
func (b *logBuffer) Errorf(format string, v ...any)  { b.add("ERR", format, v) }
func (b *logBuffer) Debugf(format string, v ...any)  { b.add("DBG", format, v) }
func (b *logBuffer) Tracef(format string, v ...any)  { b.add("TRC", format, v) }

var _ server.Logger = (*logBuffer)(nil)
