package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// startServer runs the embedded server until stop. It says at once what the server would wait a
// minute for, or never notice: a port that is taken, and a store that another server has open.
func startServer(o natsserver.Options) (srv *natsserver.Server, stop func(), err error) {
	if o.Port < 0 || o.Port > 65535 {
		return nil, nil, usagef("--port is 0 to 65535, not %d", o.Port)
	}
	if err := portFree(o.Port); err != nil {
		return nil, nil, fmt.Errorf("%w\nis another bus running? --port 0 picks a free port", err)
	}
	release, err := hold(o.StoreDir)
	if err != nil {
		return nil, nil, err
	}
	if srv, err = natsserver.Start(o); err != nil {
		release()
		return nil, nil, err
	}
	return srv, func() { srv.Stop(); release() }, nil
}

func portFree(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

var errHeld = errors.New("another server uses it; name another directory with --state")

// hold keeps other servers out of the store: two would spoil each other's files. The system lets go
// of it when the process ends in any way.
func hold(store string) (release func(), err error) {
	if err := os.MkdirAll(store, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(store, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := lock(file); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("state directory %s: %w", store, err)
	}
	return func() { _ = file.Close() }, nil
}
