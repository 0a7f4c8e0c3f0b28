package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Pauses between two tries to heal a server, and the room on the disk that one needs.
const (
	healPause, maxHealPause = 500 * time.Millisecond, 30 * time.Second
	healRoom                = 1 << 20
)

// roomFile is the file in the store that probes the room on the disk.
const roomFile = "room"

// heal starts JetStream again, in the running server, once the disk that was full has room. After one write to a stream
// has failed, nats-server writes nothing more to it, and answers no later write. heal runs until ctx ends. It looks at
// the streams after each value of failed, which follows each error that the server has logged.
func (s *Server) heal(ctx context.Context, failed <-chan struct{}, log *slog.Logger) {
	for ctx.Err() == nil {
		select {
		case <-failed:
		case <-ctx.Done():
			return
		}
		told := false
		_ = timer.Backoff{Pause: healPause, MaxPause: maxHealPause}.Until(ctx, func(context.Context) (bool, error) {
			stuck, err := s.stuck()
			if stuck == "" {
				return err == nil, err
			}
			if !told {
				log.Error("nats server: streams cannot be written; make room on the disk", "dir", s.store, "err", stuck)
				told = true
			}
			if err := s.restartJetStream(); err != nil {
				return false, err // there is no room yet
			}
			log.Warn("nats server: the disk has room again, JetStream has been started again", "dir", s.store)
			return false, nil // another stream may have failed since
		})
	}
}

// stuck returns why streams cannot be written until JetStream starts again, or "". The error says why that is unknown.
func (s *Server) stuck() (string, error) {
	if !s.srv.JetStreamEnabled() {
		return "JetStream is off", nil
	}
	for _, e := range s.srv.Healthz(&server.HealthzOptions{Details: true}).Errors {
		switch {
		case e.Type == server.HealthzErrorConn: // it has looked at nothing else
			return "", errors.New(e.Error)
		case e.Type == server.HealthzErrorStream && strings.Contains(e.Error, writeError):
			return e.Error, nil
		}
	}
	return "", nil
}

// writeError is part of the error of a stream that the server has stopped to write. The server has no type for it.
const writeError = "write error"

// restartJetStream starts JetStream again if the disk has room. It does what the server does when it reloads a
// configuration with JetStream on.
func (s *Server) restartJetStream() error {
	if err := probe(filepath.Join(s.store, roomFile)); err != nil {
		return err
	}
	if err := s.srv.ShutdownJetStream(); err != nil {
		return fmt.Errorf("nats server: %w", err)
	}
	o := s.options
	return s.srv.EnableJetStream(&server.JetStreamConfig{
		StoreDir: o.StoreDir, SyncInterval: o.SyncInterval, SyncAlways: o.SyncAlways, MaxMemory: o.JetStreamMaxMemory,
		MaxStore: o.JetStreamMaxStore, Domain: o.JetStreamDomain, Strict: !o.NoJetStreamStrict,
	})
}

// probe writes healRoom bytes to a file, and removes it.
func probe(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, healRoom))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(file))
}
