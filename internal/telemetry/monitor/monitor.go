package monitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"golang.org/x/net/netutil"
)

// Options configures a [Server]. TokenFile, Profiles and Logger are optional.
type Options struct {
	Listen    string // host and port; port 0 is a free one
	TokenFile string // file with the token that metrics and profiles ask for; read at each request
	Profiles  bool   // serve /debug/pprof
	Logger    *slog.Logger
}

// Server serves the endpoints of one process. Its methods are safe for concurrent use.
type Server struct {
	options  Options
	listener net.Listener
	reader   sdkmetric.Reader
	http     http.Server
	ended    chan struct{}

	mu      sync.Mutex
	waiting map[string]func() string // says what is missing, or "" if nothing is
}

// Limits of the endpoints, which a scrape does not reach.
const (
	maxConnections = 32
	maxHeaderBytes = 16 << 10
	scrapeTime     = 10 * time.Second
	headerTime     = 5 * time.Second
)

// ErrToken is the error of [Open] if no reader could get the metrics.
var ErrToken = errors.New("no reader can get the metrics")

// Open listens, and serves until Close.
func Open(o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(),
		otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if err := errors.Join(registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("--http-listen: %w", err)
	}
	s := &Server{
		options: o, listener: listener, reader: exporter, ended: make(chan struct{}), waiting: map[string]func() string{},
	}
	if err := s.checkToken(); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.http = http.Server{
		Handler: s.handler(promhttp.HandlerFor(registry, promhttp.HandlerOpts{
			ErrorLog: scrapeLog{o.Logger}, Timeout: scrapeTime, EnableOpenMetrics: true,
		})),
		ReadHeaderTimeout: headerTime, WriteTimeout: 2 * scrapeTime, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	go s.serve()
	return s, nil
}

func (s *Server) serve() {
	defer close(s.ended)
	if err := s.http.Serve(netutil.LimitListener(s.listener, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
		s.options.Logger.Error("health and metrics are served no more", "err", err)
	}
}

// URL returns the address of the endpoints.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Reader returns what /metrics reads instruments with. Make a provider with it.
func (s *Server) Reader() sdkmetric.Reader { return s.reader }

// Await makes /readyz ask missing: what the process still waits for, or "" if it waits for nothing. A later call with
// the same name replaces an earlier one. missing must not block.
func (s *Server) Await(name string, missing func() string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[name] = missing
}

// Close ends the endpoints. It waits at most 1 s for requests under way, or until ctx ends.
func (s *Server) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // ends what Shutdown waited for
	}
	<-s.ended
}

// scrapeLog logs errors of a scrape.
type scrapeLog struct{ log *slog.Logger }

// Println implements promhttp.Logger.
func (l scrapeLog) Println(v ...any) { l.log.Warn("metrics not complete", "err", fmt.Sprint(v...)) }
