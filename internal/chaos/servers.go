package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/chaos/evidence"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// listener is a NATS server with its name and ports.
type listener struct {
	name   string
	port   int // for clients
	routes int // for routes; 0 without a cluster
}

const server = "nats"

func isServer(name string) bool { return strings.HasPrefix(name, server) }

func (l listener) addr() string  { return fmt.Sprintf("127.0.0.1:%d", l.port) }
func (l listener) url() string   { return "nats://" + l.addr() }
func (l listener) route() string { return fmt.Sprintf("nats://127.0.0.1:%d", l.routes) }

// listeners draws the ports of the servers.
func listeners(o Options) ([]listener, error) {
	ports, err := freePorts(rand.New(rand.NewPCG(o.Seed, 1)), 2*o.Servers)
	if err != nil {
		return nil, err
	}
	if o.Servers == 1 {
		return []listener{{name: server, port: ports[0]}}, nil
	}
	var all []listener
	for i := range o.Servers {
		all = append(all, listener{name: fmt.Sprint(server, "-", i+1), port: ports[2*i], routes: ports[2*i+1]})
	}
	return all, nil
}

func (l listener) store(dir string) string { return filepath.Join(dir, "store", l.name) }

// command returns the arguments of the toolbus command that runs the server.
func (c *cluster) command(l listener, always bool) ([]string, error) {
	if c.deployment == nil {
		return l.args(c.dir, c.servers, always), nil
	}
	file, err := c.deployment.Configure(l.shape(c.dir, c.servers, always))
	return []string{"nats", "--data-dir", l.store(c.dir), "--port", strconv.Itoa(l.port), "--config", file}, err
}

// args returns the arguments for a server without authentication.
func (l listener) args(dir string, all []listener, always bool) []string {
	args := []string{"nats", "--data-dir", l.store(dir), "--port", strconv.Itoa(l.port)}
	if always {
		args = append(args, "--sync", "always")
	}
	if l.routes == 0 {
		return args
	}
	args = append(args, "--cluster-as", l.name, "--cluster-port", strconv.Itoa(l.routes))
	for _, other := range all {
		args = append(args, "--route", other.route())
	}
	return args
}

// freePorts finds ports outside the ephemeral range. A port in that range may be taken while the server is down, even
// by a client that connects to itself.
func freePorts(random *rand.Rand, n int) (ports []int, err error) {
	taken := map[int]bool{}
	for range 100 * n {
		port := 10_000 + random.IntN(20_000)
		if taken[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		if ports, taken[port] = append(ports, port), true; len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no free port between 10000 and 30000")
}

// elected waits until the servers have a meta leader, so that streams can be created.
func (c *cluster) elected(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	js, done, err := evidence.Direct(c.direct())
	if err != nil {
		return err
	}
	defer done()
	for ctx.Err() == nil {
		once, cancel := context.WithTimeout(ctx, time.Second)
		_, err = js.AccountInfo(once)
		cancel()
		if err == nil {
			return nil
		}
		timer.Sleep(ctx, 100*time.Millisecond)
	}
	return fmt.Errorf("the servers have no leader: %w", errors.Join(context.Cause(ctx), err))
}
