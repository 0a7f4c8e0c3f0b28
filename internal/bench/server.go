package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/accounts"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// host is the server of one measurement, with its files.
type host struct {
	url     string
	dir     string
	connect []nats.Option
	always  bool                   // it syncs every write
	secrets *deployment.Deployment // nil where everybody is let in
	pid     int                    // of the server's process; 0 when it is in this one
	stop    func()
}

// startHost runs a fresh server in dir/name.
func (o Options) startHost(ctx context.Context, name, mode, sync string) (*host, error) {
	dir := filepath.Join(o.Dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if mode == Process {
		return o.startServerProcess(ctx, dir, sync)
	}
	srv, err := natsserver.Start(natsserver.Options{StoreDir: dir, SyncAlways: sync == Always})
	if err != nil {
		return nil, err
	}
	return &host{url: srv.URL(), dir: dir, always: sync == Always, connect: []nats.Option{srv.InProcess()},
		stop: srv.Stop}, nil
}

// startGuarded runs a fresh server with accounts, which lets in whoever has a key or a token.
func (o Options) startGuarded(ctx context.Context, name, mode string) (*host, error) {
	dir := filepath.Join(o.Dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	secrets, err := deployment.Make(dir)
	if err != nil {
		return nil, err
	}
	store := filepath.Join(dir, "nats")
	file, err := secrets.Configure(accounts.Shape{Server: name, Listen: "127.0.0.1:-1", Store: store})
	if err != nil {
		return nil, err
	}
	h := &host{dir: dir, secrets: secrets}
	if mode == Embedded {
		srv, err := natsserver.Start(natsserver.Options{StoreDir: store, ConfigFile: file})
		if err != nil {
			return nil, err
		}
		h.url, h.connect, h.stop = srv.URL(), []nats.Option{srv.InProcess()}, srv.Stop
		return h, nil
	}
	c, err := o.startChild(ctx, dir, "nats", "nats", "--state", store, "--port", "0", "--config", file)
	if err != nil {
		return nil, err
	}
	h.url, h.pid, h.stop = c.said, c.pid, c.stop
	return h, nil
}

func (o Options) startServerProcess(ctx context.Context, dir, sync string) (*host, error) {
	args := []string{"nats", "--state", filepath.Join(dir, "nats"), "--port", "0"}
	if sync == Always {
		args = append(args, "--sync-always")
	}
	c, err := o.startChild(ctx, dir, "nats", args...)
	if err != nil {
		return nil, err
	}
	return &host{url: c.said, dir: dir, always: sync == Always, pid: c.pid, stop: c.stop}, nil
}

// close stops the server and removes its files.
func (h *host) close() {
	h.stop()
	_ = os.RemoveAll(h.dir) // the run's directory is removed at the end anyway
}

// child is a process of ours.
type child struct {
	pid   int
	said  string // what it wrote to its ready file
	ready time.Duration
	stop  func()
	wait  func() error // until it ends by itself, without an error
}

// startTimeout bounds the start of a child.
const startTimeout = 60 * time.Second

// startChild runs the toolbus command with args and waits until it is ready.
func (o Options) startChild(ctx context.Context, dir, name string, args ...string) (*child, error) {
	if o.Self == "" {
		return nil, errors.New("no toolbus command to start child processes with")
	}
	file := filepath.Join(dir, name+".ready")
	_ = os.Remove(file) // of a former child of the name
	var said strings.Builder
	cmd := exec.Command(o.Self, append(args, "--ready-file", file)...)
	cmd.Stderr = &said
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	gone := make(chan struct{})
	var failed error
	go func() { failed = cmd.Wait(); close(gone) }() // stop waits for it
	c := &child{pid: cmd.Process.Pid, stop: func() { end(cmd.Process, gone) }, wait: func() error {
		<-gone
		if failed != nil {
			return fmt.Errorf("%s: %w: %s", name, failed, strings.TrimSpace(said.String()))
		}
		return nil
	}}
	for {
		if text, err := os.ReadFile(file); err == nil {
			c.said, c.ready = strings.TrimSpace(string(text)), time.Since(started)
			return c, nil
		}
		select {
		case <-gone:
			return nil, fmt.Errorf("%s ended: %s", name, strings.TrimSpace(said.String()))
		case <-ctx.Done():
			c.stop()
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
		if time.Since(started) > startTimeout {
			c.stop()
			return nil, fmt.Errorf("%s is not ready after %s: %s", name, startTimeout, strings.TrimSpace(said.String()))
		}
	}
}

// end asks a process to stop, and kills it when it does not.
func end(p *os.Process, gone <-chan struct{}) {
	_ = p.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		_ = p.Kill()
		<-gone
	}
}
