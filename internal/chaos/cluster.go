package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/internal/chaos/executor"
	"github.com/seed-018f16cc/toolbus/internal/chaos/mcpserver"
	"github.com/seed-018f16cc/toolbus/internal/chaos/proxy"
	"github.com/seed-018f16cc/toolbus/internal/deployment/deploymenttest"
)

// ToolCommand is the hidden command of the binary that is one of a run's tools; its argument is
// the ledger. With the flags of an executor it is one, of a tool of its own.
const ToolCommand = "chaos-tool"

// Tool is that command.
func Tool(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) > 1 && args[1] == mcpserver.Word {
		return mcpserver.Serve(ctx, args[0])
	}
	if len(args) > 1 {
		return executor.Serve(ctx, args[0], args[1:])
	}
	return effects.Run(in, out, args[0])
}

// servesMCP says whether some of the tools are those of an MCP server. Chaos with an older build makes no such trouble.
func (o Options) servesMCP() bool { return o.OldBinary == "" }

// tools are those that calls are made of.
func (o Options) tools() []effects.Spec {
	if o.servesMCP() {
		return append(effects.Specs(), mcpserver.Specs()...)
	}
	return effects.Specs()
}

// lease is short, so that takeovers happen often.
const lease = 2 * time.Second

// group is how many events make a batch: few, so that there are batches.
const group = "2"

// ahead is how many calls of an actor go ahead: few, so that many go behind.
const ahead = "1"

// cluster is the processes of a run and what stands between them.
type cluster struct {
	binary, dir string
	servers     []listener
	doors       []string                   // their URLs, as they are in the order of their names
	deployment  *deploymenttest.Deployment // nil: everybody is let in
	spawn       chan func()
	nodes       map[string]*node
	proxies     map[string][]*proxy.Proxy // of a node or a caller, one before each server
	names       []string                  // of the nodes, the servers first
	keepers     sync.WaitGroup
	wg          sync.WaitGroup
	stop        context.CancelFunc

	mu      sync.Mutex
	crashes []string // processes that ended by themselves, wrongly
}

// Names of what is in a cluster.
var (
	dispatchers  = []string{"dispatcher-1", "dispatcher-2"}
	executors    = []string{"executor-1", "executor-2", "executor-3"}
	swifts       = []string{"swift-1", "swift-2"}         // executors of steady calls
	lines        = []string{"line-1", "line-2", "line-3"} // of callers
	gatewayNames = []string{"door-1", "door-2"}           // for MCP clients
)

// workers are the executors of a run.
func (o Options) workers() []string {
	if o.Steady > 0 {
		return slices.Concat(executors, swifts)
	}
	return executors
}

// newCluster prepares a cluster below dir; start starts it.
func newCluster(o Options, dir string) (*cluster, error) {
	servers, err := listeners(o)
	if err != nil {
		return nil, err
	}
	c := &cluster{
		binary: o.Binary, dir: dir, servers: servers, spawn: make(chan func()),
		nodes: map[string]*node{}, proxies: map[string][]*proxy.Proxy{},
	}
	if err := effects.WriteTools(c.tools(), o.Binary, ToolCommand, c.ledger()); err != nil {
		return nil, err
	}
	if o.servesMCP() {
		if err := mcpserver.WriteTools(c.tools(), o.Binary, ToolCommand, c.ledger()); err != nil {
			return nil, err
		}
	}
	if o.Steady > 0 {
		if err := executor.WriteTool(c.tools()); err != nil {
			return nil, err
		}
	}
	if o.Identity {
		if c.deployment, err = deploymenttest.Make(dir); err == nil {
			err = issueAll(c.deployment, o.condemned())
		}
		if err != nil {
			return nil, err
		}
	}
	for i, name := range slices.Concat(dispatchers, o.workers(), lines, o.gateways()) {
		if err := c.listen(name, o.Seed*100+uint64(i)); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	for _, s := range servers {
		command, err := c.command(s, o.SyncAlways)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.add(s.name, command, nil)
	}
	skews, dispatch := rand.New(rand.NewPCG(o.Seed, 2)), []string{"dispatcher"}
	if o.OldBinary == "" { // older builds know nothing of that
		dispatch = append(dispatch, "--overflow-after", ahead)
	}
	if o.Strict {
		dispatch = append(dispatch, "--audit", "strict")
	}
	if o.Identity {
		dispatch = append(dispatch, "--secrets-dir", c.deployment.Secrets())
	}
	for _, name := range dispatchers {
		c.add(name, slices.Concat(dispatch, c.common(o, name)), skews)
		if o.OldBinary != "" {
			c.nodes[name].newer = []string{"--older-builds"}
		}
	}
	for _, name := range o.workers() {
		args := slices.Concat([]string{"executor", "--slots", "8"}, c.common(o, name))
		if slices.Contains(swifts, name) {
			args = slices.Concat([]string{ToolCommand, c.ledger()}, c.common(o, name))
		}
		if o.Identity {
			args = append(args, "--credentials", c.deployment.Credentials(name))
		}
		c.add(name, args, skews)
	}
	if o.OldBinary != "" {
		c.begin(o.OldBinary)
	}
	if err := c.open(o); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// begin says with which build dispatchers and executors begin.
func (c *cluster) begin(build string) {
	for _, name := range c.names[len(c.servers):] {
		c.nodes[name].build = build
	}
}

// common is what dispatchers and executors are both told.
func (c *cluster) common(o Options, name string) []string {
	return []string{
		"--sync", "always", "--batch", group,
		"--partitions", strconv.Itoa(o.Partitions), "--replicas", strconv.Itoa(len(c.servers)),
		"--server", c.url(name), "--tools", c.tools(), "--lease", lease.String(),
	}
}

func (c *cluster) ledger() string { return filepath.Join(c.dir, "ledger") }
func (c *cluster) tools() string  { return filepath.Join(c.dir, "tools") }

// listen starts the proxies of a node or a caller.
func (c *cluster) listen(name string, seed uint64) error {
	for i, s := range c.servers {
		p, err := proxy.Listen(s.addr(), seed+uint64(i)<<32)
		if err != nil {
			return err
		}
		c.proxies[name] = append(c.proxies[name], p)
	}
	return nil
}

// url is where a node or a caller connects.
func (c *cluster) url(name string) string {
	var urls []string
	for _, p := range c.proxies[name] {
		urls = append(urls, p.URL())
	}
	return strings.Join(urls, ",")
}

// direct is where the servers themselves listen.
func (c *cluster) direct() deploymenttest.Access { return c.deployment.Administrator(c.urls()) }

func (c *cluster) urls() string {
	var urls []string
	for _, s := range c.servers {
		urls = append(urls, s.url())
	}
	return strings.Join(urls, ",")
}

// start starts all processes and waits until they serve.
func (c *cluster) start(ctx context.Context) error {
	ctx, c.stop = context.WithCancel(ctx)
	c.wg.Go(func() {
		runtime.LockOSThread() // children die with this thread; see bind
		for f := range c.spawn {
			f()
		}
	})
	first := len(c.servers) // the others would only fail until these serve
	for _, some := range [][]string{c.names[:first], c.names[first:]} {
		for _, name := range some {
			n := c.nodes[name]
			c.keepers.Go(func() { n.keep(ctx) })
		}
		if err := c.allReady(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) allReady(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := c.ready(ctx, c.nodes[name]); err != nil {
			return err
		}
	}
	if isServer(names[0]) {
		return c.elected(ctx)
	}
	return nil
}

// startTimeout bounds the first start of a process on the slowest machine.
const startTimeout = 60 * time.Second

// ready waits until a process says that it serves.
func (c *cluster) ready(ctx context.Context, n *node) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(n.readyFile()); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			said, _ := os.ReadFile(n.logFile()) // whatever there is
			return fmt.Errorf("%s does not serve: %w\n%s", n.name, ctx.Err(), said)
		}
	}
}

// close ends all processes and proxies, and waits until nothing is left.
func (c *cluster) close() error {
	if c.stop != nil {
		c.stop()
		c.keepers.Wait()
		close(c.spawn)
		c.wg.Wait()
	}
	var errs []error
	for _, all := range c.proxies {
		for _, p := range all {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}

// crashed returns the processes that ended by themselves in a way that no fault explains.
func (c *cluster) crashed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.crashes...)
}

// set makes trouble on the lines of one to the servers.
func (c *cluster) set(t proxy.Trouble, name string) {
	for _, p := range c.proxies[name] {
		p.Set(t)
	}
}

// setAll makes trouble on all lines to the servers.
func (c *cluster) setAll(t proxy.Trouble) {
	for name := range c.proxies {
		c.set(t, name)
	}
}
