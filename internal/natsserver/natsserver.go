package natsserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// Options configures a server. StoreDir is required unless Config or ConfigFile is set.
type Options struct {
	StoreDir   string       // folder of JetStream
	Host       string       // default 127.0.0.1
	Port       int          // 0 picks a free port
	SyncAlways bool         // sync every write before the ack
	Log        *slog.Logger // for warnings and errors of the server; nil discards them
	Cluster    Cluster      // default: a server without a cluster
	Closed     bool         // accept only in-process connections until Listen is called

	// Config is the text of a server configuration. It replaces all fields above except Log and Closed. If it is "", the
	// server has no accounts and accepts any client.
	Config string
	// ConfigFile is the path of a file that contains Config.
	ConfigFile string
}

// Cluster configures the cluster of a server. The servers elect a leader when a majority of those in Routes is up,
// which may be some time after [Start] has returned. Streams are available from then on.
type Cluster struct {
	Name   string   // of the server; unique in its cluster
	Port   int      // loopback port for routes
	Routes []string // route URLs of all servers: nats://host:port
}

// clusterName is the name of every cluster.
const clusterName = "toolbus"

// join sets the cluster options of a server. The server does not advertise the other servers, so clients stay with the
// URLs that they were given.
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

// Server is a running NATS server. Without a cluster, it goes on by itself when its disk was full and has room again.
type Server struct {
	srv     *server.Server
	options *server.Options
	store   string // folder of JetStream
	stop    func() // ends heal, and waits for it
}

// startTimeout limits the start, which includes the recovery of the streams.
const startTimeout = 60 * time.Second

// maxStore is the storage limit, larger than any disk. A stream reserves its max_bytes. By default the server grants at
// most three quarters of the free disk space, so on a small disk no stream could be created.
const maxStore = 1 << 40

// server returns the options for the NATS server.
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

// Start starts a server. The caller must call Stop.
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
	log := newLogger(cmp.Or(o.Log, slog.New(slog.DiscardHandler)))
	srv.SetLoggerV2(log, false, false, false)
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
	s := &Server{srv: srv, options: options, store: options.StoreDir, stop: func() {}}
	if !srv.JetStreamIsClustered() {
		ctx, cancel := context.WithCancel(context.Background()) // until Stop
		var wg sync.WaitGroup
		wg.Go(func() { s.heal(ctx, log.failed, log.to) })
		s.stop = func() { cancel(); wg.Wait() }
	}
	return s, nil
}

// Listen accepts connections of other processes, on a server that was started with Closed.
func (s *Server) Listen() error {
	s.srv.AcceptLoop(make(chan struct{})) // returns when the server listens
	if s.srv.Addr() == nil {
		return fmt.Errorf("nats server: cannot listen at %s", s.URL()) // the reason is in the log
	}
	return nil
}

// URL returns the URL for clients. If a server that picks its port does not listen yet, the port is 0.
func (s *Server) URL() string { return s.srv.ClientURL() }

// Stop stops the server and waits until it has written everything to disk.
func (s *Server) Stop() {
	s.stop()
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
}

// InProcess returns the option to connect without a socket.
func (s *Server) InProcess() nats.Option { return nats.InProcessServer(s.srv) }

// Limits of the warnings and errors of a server that are logged. The server logs each message that it refuses.
const (
	logAtOnce    = 10_000
	logPerSecond = 200
)

// Doctor is the name of the connections of `toolbus doctor`, which tries what it may not do. The log leaves out that
// the server refuses it.
const Doctor = "toolbus-doctor"

// refusesDoctor reports whether an error of the server is that it has refused a subject to a connection named Doctor.
func refusesDoctor(says string) bool {
	return strings.Contains(says, ":"+Doctor+`"`) && strings.Contains(says, " Violation - Subject ")
}

// logger logs the messages of a server. It drops those above the limit, and logs their number. A fatal error of the
// server does not end the process: Start returns an error.
type logger struct {
	to     *slog.Logger
	failed chan struct{} // has a value if an error was logged

	mu    sync.Mutex
	limit flow.Bucket
	left  int // number of messages that were dropped since the last logged one
}

func newLogger(to *slog.Logger) *logger {
	return &logger{to: to, failed: make(chan struct{}, 1), limit: flow.Bucket{Rate: logPerSecond, Burst: logAtOnce}}
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

// Noticef implements server.Logger. It logs at level debug.
func (l *logger) Noticef(format string, v ...any) {
	l.to.Debug("nats server: " + fmt.Sprintf(format, v...))
}

// Warnf implements server.Logger.
func (l *logger) Warnf(format string, v ...any) {
	level := slog.LevelWarn
	if says := fmt.Sprintf(format, v...); isRebuilt(says) || isRefused(says) {
		level = slog.LevelDebug
	}
	l.log(level, format, v)
}

// isRebuilt reports whether a warning is one of a stream of a server that was killed. The server has not written the
// indexes of the stream then, and makes them again from the messages. Nothing is lost: other warnings name damage.
func isRebuilt(warning string) bool {
	parts := []string{"Stream state outdated", "from index errored: prior state file", "TTL state is outdated"}
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(warning, part) })
}

// isRefused reports whether a warning is that a dispatcher has refused a connection. That dispatcher logs the reason,
// and the server logs an error of the connection, too.
func isRefused(warning string) bool {
	return strings.HasSuffix(strings.ToLower(warning), "auth callout service returned an error: refused")
}

// Fatalf implements server.Logger.
func (l *logger) Fatalf(format string, v ...any) { l.Errorf(format, v...) }

// Errorf implements server.Logger.
func (l *logger) Errorf(format string, v ...any) {
	if says := fmt.Sprintf(format, v...); refusesDoctor(says) {
		l.to.Debug("nats server: " + says)
		return
	}
	l.log(slog.LevelError, format, v)
	select {
	case l.failed <- struct{}{}:
	default: // it has one
	}
}

// Debugf implements server.Logger. The server does not call it, because debug is off.
func (l *logger) Debugf(string, ...any) {}

// Tracef implements server.Logger. The server does not call it, because trace is off.
func (l *logger) Tracef(string, ...any) {}
