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

// startTimeout limits one start of the server. Slow machines need a fraction of it.
const startTimeout = 30 * time.Second

// Server is a NATS server in the test process. Its methods must be called by one goroutine at a time. Connections may
// be used during a restart.
type Server struct {
	// URL is the address for clients. A restart does not change it. Do not set it.
	URL string

	t    testing.TB
	opts server.Options
	log  *logBuffer
	srv  *server.Server // nil while stopped

	mu    sync.Mutex
	conns []*nats.Conn // made by Connect
}

// Option changes the configuration of a Server before a start.
type Option func(*server.Options)

// SyncAlways makes the server sync every write before the ack, as in profiles that survive a power cut.
func SyncAlways() Option {
	return func(o *server.Options) { o.SyncAlways = true }
}

// Start starts a server with JetStream, file storage in t.TempDir and a free loopback port. It is stopped when the test
// ends.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := prepare(t, options)
	s.start()
	s.URL = s.srv.ClientURL()
	return s
}

// prepare configures a server, and stops it when t ends.
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
			JetStreamMaxStore:      1 << 40, // larger than any disk
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

// Restart stops the server if it runs, changes its options, and starts it with the same folder and port. Existing
// connections reconnect.
func (s *Server) Restart(options ...Option) {
	s.t.Helper()
	s.Stop()
	for _, option := range options {
		option(&s.opts)
	}
	s.start()
}

// Dir returns the folder of JetStream.
func (s *Server) Dir() string { return s.opts.StoreDir }

// Stop stops the server and waits for it, and until the connections that Connect has made have noticed: what they send
// later waits for the next start. If it is stopped, Stop does nothing.
func (s *Server) Stop() {
	s.t.Helper()
	if s.srv == nil {
		return
	}
	lost := s.watch()
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	s.srv = nil
	late := time.After(startTimeout)
	for _, gone := range lost {
		select {
		case <-gone:
		case <-late:
			s.t.Errorf("natstest: a connection has not noticed within %v that its server has stopped", startTimeout)
			return
		}
	}
}

// watch returns a channel for each connection to this server, which gets a value when the connection is lost.
func (s *Server) watch() (lost []chan nats.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, nc := range s.conns {
		gone := nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
		if nc.IsConnected() && nc.ConnectedServerId() == s.srv.ID() {
			lost = append(lost, gone)
		}
	}
	return lost
}

// Connect returns a connection that reconnects quickly and without limit. It is closed when t ends. Later options
// override these defaults.
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, nc)
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

// start starts a new server.
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

// logLines is the number of log lines that a failed test prints.
const logLines = 200

// logBuffer keeps the last lines of the server's log. It implements server.Logger. Fatalf does not end the process;
// start then fails because the server is not ready.
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

// String returns the kept lines.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "")
}

// Methods of server.Logger.

func (b *logBuffer) Noticef(format string, v ...any) { b.add("INF", format, v) }
func (b *logBuffer) Warnf(format string, v ...any)   { b.add("WRN", format, v) }
func (b *logBuffer) Fatalf(format string, v ...any)  { b.add("FTL", format, v) }
func (b *logBuffer) Errorf(format string, v ...any)  { b.add("ERR", format, v) }
func (b *logBuffer) Debugf(format string, v ...any)  { b.add("DBG", format, v) }
func (b *logBuffer) Tracef(format string, v ...any)  { b.add("TRC", format, v) }

var _ server.Logger = (*logBuffer)(nil)
