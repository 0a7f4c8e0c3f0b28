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
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// ToolCommand is the hidden command of the program Self that runs one of the tools of a run. Its argument is the path
// of the ledger. With the flags of an executor it runs an executor with a tool of its own, and with the argument
// mcpserver.Word an MCP server.
const ToolCommand = "chaos-tool"

// Tool implements ToolCommand.
func Tool(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) > 1 && args[1] == mcpserver.Word {
		return mcpserver.Serve(ctx, args[0])
	}
	if len(args) > 1 {
		return executor.Serve(ctx, args[0], args[1:])
	}
	return effects.Run(in, out, args[0])
}

// servesMCP reports whether the run has tools of an MCP server, and MCP gateways. A run with an older build has
// neither.
func (o Options) servesMCP() bool { return o.OldBinary == "" }

// tools returns the tools that the plan calls.
func (o Options) tools() []effects.Spec {
	if o.servesMCP() {
		return append(effects.Specs(), mcpserver.Specs()...)
	}
	return effects.Specs()
}

// lease is short, so that executors often take over work.
const lease = 2 * time.Second

// group is the number of events from which on a batch is written. It is small, so that there are batches.
const group = "2"

// ahead is the number of open calls of an actor from which on calls go to the overflow queue. It is small, so that many
// do.
const ahead = "1"

// cluster holds the processes of a run and the proxies between them.
type cluster struct {
	binary, dir string
	servers     []listener
	doors       []string                   // URLs of the MCP gateways, in the order of their names
	deployment  *deploymenttest.Deployment // nil without authentication
	policy      policy.Documents           // that is in force at first
	spawn       chan func()
	nodes       map[string]*node
	proxies     map[string][]*proxy.Proxy // by name of a node or line, one for each server
	names       []string                  // of the nodes, the servers first
	keepers     sync.WaitGroup
	wg          sync.WaitGroup
	stop        context.CancelFunc

	mu      sync.Mutex
	crashes []string // unexpected ends of processes
}

// Names of nodes and lines.
var (
	dispatchers  = []string{"dispatcher-1", "dispatcher-2"}
	executors    = []string{"executor-1", "executor-2", "executor-3"}
	swifts       = []string{"swift-1", "swift-2"}         // executors of steady calls
	lines        = []string{"line-1", "line-2", "line-3"} // of callers
	gatewayNames = []string{"door-1", "door-2"}           // for MCP clients
)

// workers returns the names of the executors of a run.
func (o Options) workers() []string {
	if o.Steady > 0 {
		return slices.Concat(executors, swifts)
	}
	return executors
}

// newCluster prepares a cluster in the folder dir. It does not start processes.
func newCluster(o Options, dir string) (*cluster, error) {
	servers, err := listeners(o)
	if err != nil {
		return nil, err
	}
	c := &cluster{
		binary: o.Binary, dir: dir, servers: servers, spawn: make(chan func()),
		nodes: map[string]*node{}, proxies: map[string][]*proxy.Proxy{},
	}
	if err := effects.WriteTools(c.tools(), o.Self, ToolCommand, c.ledger()); err != nil {
		return nil, err
	}
	if o.servesMCP() {
		if err := mcpserver.WriteTools(c.tools(), o.Self, ToolCommand, c.ledger()); err != nil {
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
	skews, dispatch := rand.New(rand.NewPCG(o.Seed, 2)), []string{"dispatcher", "--overflow-after", ahead}
	if o.Strict {
		dispatch = append(dispatch, "--audit", "strict")
	}
	if o.Identity {
		dispatch = append(dispatch, "--secrets-dir", c.deployment.Secrets())
	} else {
		dispatch = append(dispatch, "--insecure-no-auth")
	}
	for _, name := range dispatchers {
		c.add(name, slices.Concat(dispatch, c.common(o, name)), skews)
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
		if slices.Contains(swifts, name) {
			c.nodes[name].build = o.Self
		}
	}
	if o.OldBinary != "" {
		c.begin(o.OldBinary)
	}
	if err := c.open(o); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// begin sets the build as which dispatchers and executors start. One dispatcher is always of the newer build: executors
// of that build start nothing without it, and a policy needs it.
func (c *cluster) begin(build string) {
	for _, name := range c.names[len(c.servers):] {
		if name != dispatchers[0] {
			c.nodes[name].build = build
		}
	}
}

// common returns the flags of both dispatchers and executors.
func (c *cluster) common(o Options, name string) []string {
	return []string{
		"--sync", "always", "--batch", group,
		"--partitions", strconv.Itoa(o.Partitions), "--replicas", strconv.Itoa(len(c.servers)),
		"--server", c.url(name), "--tools", c.tools(), "--lease", lease.String(),
	}
}

func (c *cluster) ledger() string { return filepath.Join(c.dir, "ledger") }
func (c *cluster) tools() string  { return filepath.Join(c.dir, "tools") }

// listen starts the proxies of a node or a line.
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

// url returns the URLs of the proxies of a node or a line.
func (c *cluster) url(name string) string {
	var urls []string
	for _, p := range c.proxies[name] {
		urls = append(urls, p.URL())
	}
	return strings.Join(urls, ",")
}

// direct returns the access to the servers without a proxy.
func (c *cluster) direct() deploymenttest.Access { return c.deployment.Administrator(c.urls()) }

func (c *cluster) urls() string {
	var urls []string
	for _, s := range c.servers {
		urls = append(urls, s.url())
	}
	return strings.Join(urls, ",")
}

// start starts all processes and waits until they are ready.
func (c *cluster) start(ctx context.Context) error {
	ctx, c.stop = context.WithCancel(ctx)
	c.wg.Go(func() {
		runtime.LockOSThread() // children die with this thread; see bind
		for f := range c.spawn {
			f()
		}
	})
	if err := c.servePoison(ctx); err != nil {
		return err
	}
	first := len(c.servers) // the others would fail until the servers are ready
	if err := c.startSome(ctx, c.names[:first]); err != nil {
		return err
	}
	if err := c.startSome(ctx, dispatchers[:1]); err != nil {
		return err
	}
	if err := c.pushPolicy(ctx); err != nil { // first, so that every other dispatcher has it from its start
		return err
	}
	return c.startSome(ctx, slices.DeleteFunc(slices.Clone(c.names[first:]), func(name string) bool {
		return name == dispatchers[0]
	}))
}

// startSome starts some processes and waits until they are ready.
func (c *cluster) startSome(ctx context.Context, names []string) error {
	for _, name := range names {
		n := c.nodes[name]
		c.keepers.Go(func() { n.keep(ctx) })
	}
	return c.allReady(ctx, names)
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

// startTimeout limits the first start of a process.
const startTimeout = 60 * time.Second

// ready waits until a process has written its ready file.
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
			said, _ := os.ReadFile(n.logFile()) // best effort
			return fmt.Errorf("%s does not serve: %w\n%s", n.name, ctx.Err(), said)
		}
	}
}

// close stops all processes and proxies, and waits for them.
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

// crashed returns the ends of processes that no fault explains.
func (c *cluster) crashed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.crashes...)
}

// set sets the trouble of the proxies of a node or a line.
func (c *cluster) set(t proxy.Trouble, name string) {
	for _, p := range c.proxies[name] {
		p.Set(t)
	}
}

// setAll sets the trouble of all proxies.
func (c *cluster) setAll(t proxy.Trouble) {
	for name := range c.proxies {
		c.set(t, name)
	}
}
