package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/chaos/ledger"
	"github.com/seed-018f16cc/toolbus/internal/chaos/proxy"
	"github.com/seed-018f16cc/toolbus/internal/wait"
)

// ToolCommand is the hidden command of the binary that is one of a run's tools; its argument is
// the ledger.
const ToolCommand = "chaos-tool"

// lease is short, so that takeovers happen often.
const lease = 2 * time.Second

// group is how many events make a batch: few, so that there are batches.
const group = "2"

// cluster is the processes of a run and what stands between them.
type cluster struct {
	binary, dir string
	server      string // host:port of the NATS server
	spawn       chan func()
	nodes       map[string]*node
	proxies     map[string]*proxy.Proxy // by node or caller
	names       []string                // of the nodes, the server first
	keepers     sync.WaitGroup
	wg          sync.WaitGroup
	stop        context.CancelFunc

	mu      sync.Mutex
	crashes []string // processes that ended by themselves, wrongly
}

// Names of what is in a cluster.
var (
	dispatchers = []string{"dispatcher-1", "dispatcher-2"}
	executors   = []string{"executor-1", "executor-2", "executor-3"}
	lines       = []string{"line-1", "line-2", "line-3"} // of callers
)

const server = "nats"

// newCluster prepares a cluster below dir; start starts it.
func newCluster(o Options, dir string) (*cluster, error) {
	port, err := freePort(rand.New(rand.NewPCG(o.Seed, 1)))
	if err != nil {
		return nil, err
	}
	c := &cluster{
		binary: o.Binary, dir: dir, server: fmt.Sprintf("127.0.0.1:%d", port), spawn: make(chan func()),
		nodes: map[string]*node{}, proxies: map[string]*proxy.Proxy{},
	}
	tools := filepath.Join(dir, "tools")
	if err := ledger.WriteTools(tools, o.Binary, ToolCommand, c.ledger()); err != nil {
		return nil, err
	}
	for i, name := range append(append(append([]string{}, dispatchers...), executors...), lines...) {
		if c.proxies[name], err = proxy.Listen(c.server, o.Seed*100+uint64(i)); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	skews := rand.New(rand.NewPCG(o.Seed, 2))
	nats := []string{"nats", "--state", filepath.Join(dir, "store"), "--port", fmt.Sprint(port)}
	if o.SyncAlways {
		nats = append(nats, "--sync-always")
	}
	c.add(server, nats, nil)
	partitions := strconv.Itoa(o.Partitions)
	for _, name := range dispatchers {
		c.add(name, []string{"dispatcher", "--fsync", "--group", group, "--partitions", partitions, "--server", c.proxies[name].URL(), "--tools", tools, "--lease", lease.String()}, skews)
	}
	for _, name := range executors {
		c.add(name, []string{"executor", "--fsync", "--group", group, "--partitions", partitions, "--slots", "8", "--server", c.proxies[name].URL(), "--tools", tools, "--lease", lease.String()}, skews)
	}
	return c, nil
}

func (c *cluster) ledger() string { return filepath.Join(c.dir, "ledger") }

// freePort finds a port outside of the range from which clients get theirs: one within it may be
// taken while the server is down, even by a client that connects to itself.
func freePort(random *rand.Rand) (int, error) {
	for range 100 {
		port := 10_000 + random.IntN(20_000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port between 10000 and 30000")
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
	for i, name := range c.names {
		n := c.nodes[name]
		c.keepers.Go(func() { n.keep(ctx) })
		if i == 0 { // the others would only fail until it serves
			if err := c.ready(ctx, n); err != nil {
				return err
			}
		}
	}
	for _, name := range c.names[1:] {
		if err := c.ready(ctx, c.nodes[name]); err != nil {
			return err
		}
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
	for _, p := range c.proxies {
		if p != nil {
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

// set makes trouble on all lines to the server, or on those named.
func (c *cluster) set(t proxy.Trouble, names ...string) {
	for name, p := range c.proxies {
		if len(names) == 0 || strings.Contains(strings.Join(names, " "), name) {
			p.Set(t)
		}
	}
}

// node is one process that is kept running.
type node struct {
	*cluster
	name   string
	args   []string
	skews  *rand.Rand // nil: its clock is right
	orders chan order
	over   chan struct{}
}

// order is what is done to a process; done is closed when it runs again.
type order struct {
	what Action
	wait time.Duration // frozen or down
	done chan struct{}
}

func (c *cluster) add(name string, args []string, skews *rand.Rand) {
	n := &node{cluster: c, name: name, skews: skews, orders: make(chan order), over: make(chan struct{})}
	n.args = append(args, "--ready-file", n.readyFile())
	c.nodes[name], c.names = n, append(c.names, name)
}

func (n *node) readyFile() string { return filepath.Join(n.dir, n.name+".ready") }
func (n *node) logFile() string   { return filepath.Join(n.dir, n.name+".log") }

// do has an order carried out, unless the process is just being seen to otherwise.
func (n *node) do(ctx context.Context, what Action, wait time.Duration) bool {
	o := order{what: what, wait: wait, done: make(chan struct{})}
	select {
	case n.orders <- o:
	case <-ctx.Done():
		return false
	default:
		return false
	}
	select {
	case <-o.done:
	case <-n.over:
	}
	return true
}

// restartDelay is how long a process stays down that ended by itself.
const restartDelay = 200 * time.Millisecond

// keep runs the process until ctx ends.
func (n *node) keep(ctx context.Context) {
	defer close(n.over)
	var pending *order // whose process is to be started again
	for ctx.Err() == nil {
		_ = os.Remove(n.readyFile()) // it is there from the second start on
		p, err := n.launch()
		if pending != nil {
			close(pending.done)
			pending = nil
		}
		if err != nil {
			n.crash(err.Error())
			return
		}
		pending = n.attend(ctx, p)
		if pending == nil {
			wait.For(ctx, restartDelay)
		} else {
			wait.For(ctx, pending.wait)
		}
	}
	if pending != nil {
		close(pending.done)
	}
}

// process is one life of a node.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func (n *node) launch() (*process, error) {
	log, err := os.OpenFile(n.logFile(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	args := n.args
	if n.skews != nil {
		args = append(append([]string(nil), args...), "--clock-skew", skew(n.skews).String())
	}
	p := &process{cmd: exec.Command(n.binary, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	bind(p.cmd)
	started := make(chan error)
	n.spawn <- func() { started <- p.cmd.Start() }
	if err := errors.Join(<-started, log.Close()); err != nil {
		return nil, err
	}
	n.wg.Go(func() {
		_ = p.cmd.Wait() // the state tells
		close(p.ended)
	})
	return p, nil
}

// skew draws how wrong the clock of a process is: right, a little, or very.
func skew(random *rand.Rand) time.Duration {
	switch random.IntN(4) {
	case 0:
		return 0
	case 1:
		return time.Duration(random.Int64N(int64(2*time.Second))) - time.Second
	case 2:
		return 30 * time.Second
	}
	return -30 * time.Second
}

// attend sees to a living process until it is gone. It returns the order by which it went, or
// nil if it ended by itself or with the run.
func (n *node) attend(ctx context.Context, p *process) *order {
	for {
		select {
		case <-ctx.Done():
			n.kill(p)
			return nil
		case <-p.ended:
			n.unexpected(p)
			return nil
		case o := <-n.orders:
			if gone := n.carryOut(ctx, p, o); gone {
				return &o
			}
			close(o.done)
		}
	}
}

// carryOut does o to the process; gone says that it has ended by it.
func (n *node) carryOut(ctx context.Context, p *process, o order) (gone bool) {
	switch o.what {
	case Freeze:
		if p.cmd.Process.Signal(sigStop) == nil {
			wait.For(ctx, o.wait)
			_ = p.cmd.Process.Signal(sigCont) // it may have been killed meanwhile
		}
		return false
	case Restart:
		_ = terminate(p.cmd.Process)                            // it may have ended just now
		if !n.wait(ctx, p, drainPatience) && ctx.Err() == nil { // at the end of the run it is killed
			n.crash("it did not end within " + drainPatience.String() + " of SIGTERM")
		}
	}
	n.kill(p)
	return true
}

// drainPatience is how long a process may take to end when it is asked to.
const drainPatience = 20 * time.Second

func (n *node) kill(p *process) {
	_ = p.cmd.Process.Kill() // it may have ended just now
	<-p.ended
}

func (n *node) wait(ctx context.Context, p *process, atMost time.Duration) bool {
	t := time.NewTimer(atMost)
	defer t.Stop()
	select {
	case <-p.ended:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// unexpected notes an end that no fault explains. A process that cannot reach the server when it
// starts says so and ends, and a poison call kills its executor; whoever runs them starts them
// again.
func (n *node) unexpected(p *process) {
	state := p.cmd.ProcessState
	poisoned := slices.Contains(executors, n.name) && killed(state)
	if n.name == server || state.ExitCode() != 1 && !poisoned {
		n.crash(state.String())
	}
}

func (n *node) crash(how string) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.crashes = append(n.crashes, fmt.Sprintf("%s ended by itself: %s (see %s)", n.name, how, n.logFile()))
}
