// Package natsserver runs a NATS server with JetStream inside this process: the zero
// configuration bus of `toolbus dev`, and the server process of `toolbus chaos` and `bench`.
package natsserver

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Options of a server. The zero value listens on a free loopback port and keeps nothing.
type Options struct {
	StoreDir   string // where streams live; required
	Host       string // default 127.0.0.1
	Port       int    // 0 picks a free one
	SyncAlways bool   // fsync before every acknowledgement
	Log        server.Logger
}

// Server is a running server.
type Server struct{ srv *server.Server }

// startTimeout bounds the start, which replays the streams.
const startTimeout = 60 * time.Second

// Start runs a server until Stop.
func Start(o Options) (*Server, error) {
	if o.StoreDir == "" {
		return nil, errors.New("nats server: no store directory")
	}
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	port := o.Port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	srv, err := server.NewServer(&server.Options{
		ServerName: "toolbus", Host: o.Host, Port: port, JetStream: true, StoreDir: o.StoreDir, SyncAlways: o.SyncAlways,
		NoSigs: true, DisableJetStreamBanner: true, MaxPayload: 1 << 20, WriteDeadline: 10 * time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("nats server: %w", err)
	}
	if o.Log != nil {
		srv.SetLoggerV2(o.Log, false, false, false)
	}
	go srv.Start() // ends with Shutdown; Stop waits for it
	if !srv.ReadyForConnections(startTimeout) {
		srv.Shutdown()
		return nil, fmt.Errorf("nats server: not ready on %s:%d after %s (is the port taken?)", o.Host, o.Port, startTimeout)
	}
	if !srv.JetStreamEnabled() {
		srv.Shutdown()
		return nil, fmt.Errorf("nats server: JetStream did not start in %s (is the directory writable and used by nobody else?)", o.StoreDir)
	}
	return &Server{srv: srv}, nil
}

// URL is where clients connect.
func (s *Server) URL() string { return s.srv.ClientURL() }

// Stop ends the server and waits until everything is on disk.
func (s *Server) Stop() {
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
}

// InProcess connects without a socket.
func (s *Server) InProcess() nats.Option { return nats.InProcessServer(s.srv) }
