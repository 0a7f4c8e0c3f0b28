package bench

import (
	"context"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/bench/process"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/deployment/deploymenttest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// host is a NATS server with its files.
type host struct {
	url     string
	dir     string
	connect []nats.Option
	always  bool                       // the server syncs every write
	secrets *deploymenttest.Deployment // nil without accounts and tokens
	pid     int                        // of the server process; 0 if the server is embedded
	stop    func()
}

// startHost starts a new server with the folder name in o.Dir.
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

// startGuarded starts a new server with accounts, which accepts only clients with a key or a token.
func (o Options) startGuarded(ctx context.Context, name, mode string) (*host, error) {
	dir := filepath.Join(o.Dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	secrets, err := deploymenttest.Make(dir)
	if err != nil {
		return nil, err
	}
	store := filepath.Join(dir, "nats")
	file, err := secrets.Configure(deployment.Shape{Server: name, Listen: "127.0.0.1:-1", Store: store})
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
	c, err := o.startChild(ctx, dir, "nats", "nats", "--data-dir", store, "--port", "0", "--config", file)
	if err != nil {
		return nil, err
	}
	h.url, h.pid, h.stop = c.Said, c.PID, c.Stop
	return h, nil
}

func (o Options) startServerProcess(ctx context.Context, dir, sync string) (*host, error) {
	args := []string{"nats", "--data-dir", filepath.Join(dir, "nats"), "--port", "0"}
	if sync == Always {
		args = append(args, "--sync", "always")
	}
	c, err := o.startChild(ctx, dir, "nats", args...)
	if err != nil {
		return nil, err
	}
	return &host{url: c.Said, dir: dir, always: sync == Always, pid: c.PID, stop: c.Stop}, nil
}

// close stops the server and removes its files.
func (h *host) close() {
	h.stop()
	_ = os.RemoveAll(h.dir) // Run removes the folder of all servers at the end
}

// startTimeout limits the start of a child process, and of Toolbus in this process.
const startTimeout = process.StartTimeout

// startChild runs toolbus with args and waits until it is ready.
func (o Options) startChild(ctx context.Context, dir, name string, args ...string) (*process.Process, error) {
	return process.Start(ctx, o.Product, dir, name, args...)
}

// startHalf starts the dispatcher or the executor of a bus without secrets, with the tools of a folder.
func (o Options) startHalf(ctx context.Context, h *host, role, tools string) (*process.Process, error) {
	args := []string{role, "--server", h.url, "--tools", tools}
	if role == Dispatcher {
		args = append(args, "--insecure-no-auth")
	}
	return o.startChild(ctx, h.dir, role, args...)
}
