package natsserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// Options of a server. The zero value listens on a free loopback port and keeps nothing.
type Options struct {
	StoreDir   string       // where streams live; required
	Host       string       // default 127.0.0.1
	Port       int          // 0 picks a free one
	SyncAlways bool         // fsync before every acknowledgement
	Log        *slog.Logger // for what the server has to say; default nobody hears it
	Cluster    Cluster      // default a server of its own
	Closed     bool         // take connections from within this process alone, until Listen

	// Config is the text of a configuration that says all of the above but Log, and which accounts there are; with "" the
	// server lets everybody in.
	Config string
	// ConfigFile is where that text is, if it is in a file.
	ConfigFile string
}

// Cluster says with which servers one replicates its streams. They agree on a leader when most of
// those that Routes names are up, so that streams are there some time after [Start] has returned.
type Cluster struct {
	Name   string   // of the server, its own in the cluster
	Port   int      // on loopback, for the other servers
	Routes []string // where all of them listen for each other: nats://host:port
}

// clusterName is that of every cluster: none knows of another.
const clusterName = "toolbus"

// join makes a server one of the cluster. Clients are told of no other server, so that they stay with those that
// they were given.
func (c Cluster) join(o *server.Options) error {
	if c.Name == "" {
		return nil
	}
	o.ServerName = c.Name
	o.Cluster = server.ClusterOpts{Name: clusterName, Host: o.Host, Port: c.Port, NoAdvertise: true}
	for _, r := range c.Routes {
		u, err := url.Parse(r)
		if err != nil {
			return fmt.Errorf("route: %w", err)
		}
		o.Routes = append(o.Routes, u)
	}
	return nil
}

// Server is a running server.
type Server struct{ srv *server.Server }

// startTimeout bounds the start, which replays the streams.
const startTimeout = 60 * time.Second

// maxStore is what streams may reserve: all that they like. A stream reserves its max_bytes, and the
// server would grant no more than three quarters of what is free on the disk, so that on a small one
// nothing started, however little is kept.
const maxStore = 1 << 40

// server is what the server takes as its options.
func (o Options) server() (*server.Options, error) {
	if o.ConfigFile != "" {
		text, err := os.ReadFile(o.ConfigFile)
		if err != nil {
			return nil, err
		}
		o.Config = string(text)
	}
	if o.Config != "" {
		options := &server.Options{NoSigs: true, DisableJetStreamBanner: true}
		return options, options.ProcessConfigString(o.Config)
	}
	if o.StoreDir == "" {
		return nil, errors.New("no store directory")
	}
	options := &server.Options{
		ServerName: "toolbus", Host: cmp.Or(o.Host, "127.0.0.1"), Port: cmp.Or(o.Port, server.RANDOM_PORT),
		JetStream: true, StoreDir: o.StoreDir, SyncAlways: o.SyncAlways,
		NoSigs: true, DisableJetStreamBanner: true, MaxPayload: 1 << 20, WriteDeadline: 10 * time.Second,
		JetStreamMaxStore: maxStore,
	}
	return options, o.Cluster.join(options)
}

// Start runs a server until Stop.
func Start(o Options) (*Server, error) {
	options, err := o.server()
	if err != nil {
		return nil, fmt.Errorf("nats server: %w", err)
	}
	options.DontListen = o.Closed
	srv, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("nats server: %w", err)
	}
	if o.Log != nil {
		srv.SetLoggerV2(newLogger(o.Log), false, false, false)
	}
	go srv.Start() // ends with Shutdown; Stop waits for it
	if !srv.ReadyForConnections(startTimeout) {
		srv.Shutdown()
		return nil, fmt.Errorf("nats server: not ready on %s:%d after %s (is the port taken?)", options.Host, options.Port,
			startTimeout)
	}
	if !srv.JetStreamEnabled() {
		srv.Shutdown()
		return nil, fmt.Errorf("nats server: JetStream did not start in %s (is the directory writable and used by nobody "+
			"else?)", options.StoreDir)
	}
	return &Server{srv: srv}, nil
}

// Listen takes connections of other processes, on a server that was started with Closed.
func (s *Server) Listen() error {
	s.srv.AcceptLoop(make(chan struct{})) // it returns when the server listens
	if s.srv.Addr() == nil {
		return fmt.Errorf("nats server: cannot listen at %s", s.URL()) // the log has the reason
	}
	return nil
}

// URL is where clients connect. The port of a server that does not listen is 0 if it is to pick a free one.
func (s *Server) URL() string { return s.srv.ClientURL() }

// Stop ends the server and waits until everything is on disk.
func (s *Server) Stop() {
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
}

// InProcess connects without a socket.
func (s *Server) InProcess() nats.Option { return nats.InProcessServer(s.srv) }

// Bounds of how many warnings and errors of a server are logged. The server logs each message that it refuses.
const (
	logAtOnce    = 10_000
	logPerSecond = 200
)

// logger is the log of a server. It drops what is above the limits, and says how much. What the server calls fatal does
// not end this process: whoever started the server is told.
type logger struct {
	to *slog.Logger

	mu    sync.Mutex
	limit flow.Bucket
	left  int // lines since the last one that was logged
}

func newLogger(to *slog.Logger) *logger {
	return &logger{to: to, limit: flow.Bucket{Rate: logPerSecond, Burst: logAtOnce}}
}

func (l *logger) log(level slog.Level, format string, v []any) {
	l.mu.Lock()
	logged, left := l.limit.Take(time.Now()), l.left
	if l.left++; logged {
		l.left = 0
	}
	l.mu.Unlock()
	if logged && left > 0 {
		l.to.Warn("nats server: lines were left out", "lines", left)
	}
	if logged {
		l.to.Log(context.Background(), level, "nats server: "+fmt.Sprintf(format, v...))
	}
}

// Noticef implements server.Logger; that all is well is a detail here.
func (l *logger) Noticef(format string, v ...any) {
	l.to.Debug("nats server: " + fmt.Sprintf(format, v...))
}

// Warnf implements server.Logger.
func (l *logger) Warnf(format string, v ...any) { l.log(slog.LevelWarn, format, v) }

// Fatalf implements server.Logger.
func (l *logger) Fatalf(format string, v ...any) { l.Errorf(format, v...) }

// Errorf implements server.Logger.
func (l *logger) Errorf(format string, v ...any) { l.log(slog.LevelError, format, v) }

// Debugf implements server.Logger; it is never asked for.
func (l *logger) Debugf(string, ...any) {}

// Tracef implements server.Logger; it is never asked for.
func (l *logger) Tracef(string, ...any) {}
