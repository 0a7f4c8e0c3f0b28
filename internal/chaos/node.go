package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// node is a process that is restarted whenever it ends.
type node struct {
	*cluster
	name   string
	build  string // path of the program
	args   []string
	skews  *rand.Rand // nil if its clock is not skewed
	orders chan order
	over   chan struct{}
}

// order is a fault of one process. done is closed when the process runs again.
type order struct {
	what  Action
	wait  time.Duration // time while it is frozen or down
	build string        // build of the next start; "" is the same
	done  chan struct{}
}

// add adds a node. It removes the ready file of an earlier run.
func (c *cluster) add(name string, args []string, skews *rand.Rand) {
	n := &node{
		cluster: c, name: name, build: c.binary, skews: skews, orders: make(chan order), over: make(chan struct{}),
	}
	n.args = append(args, "--ready-file", n.readyFile())
	_ = os.Remove(n.readyFile())
	c.nodes[name], c.names = n, append(c.names, name)
}

func (n *node) readyFile() string { return filepath.Join(n.dir, n.name+".ready") }
func (n *node) logFile() string   { return filepath.Join(n.dir, n.name+".log") }

// do injects a fault, and returns when the process runs again. It returns false if another fault of the process is in
// progress.
func (n *node) do(ctx context.Context, o order) bool {
	o.done = make(chan struct{})
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

// restartDelay is the pause before the restart of a process that ended by itself.
const restartDelay = 200 * time.Millisecond

// keep runs the process until ctx ends.
func (n *node) keep(ctx context.Context) {
	defer close(n.over)
	var pending *order // the order after which the process must be started
	for ctx.Err() == nil {
		_ = os.Remove(n.readyFile()) // from the second start on, it exists
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
			timer.Sleep(ctx, restartDelay)
			continue
		}
		n.build = cmp.Or(pending.build, n.build)
		timer.Sleep(ctx, pending.wait)
	}
	if pending != nil {
		close(pending.done)
	}
}

// process is one process of a node.
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
	p := &process{cmd: exec.Command(n.build, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	bind(p.cmd)
	started := make(chan error)
	n.spawn <- func() { started <- p.cmd.Start() }
	if err := errors.Join(<-started, log.Close()); err != nil {
		return nil, err
	}
	n.wg.Go(func() {
		_ = p.cmd.Wait() // ProcessState has the result
		close(p.ended)
	})
	return p, nil
}

// skew draws the clock skew of a process: none, small or large.
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

// attend waits until a process has ended, and carries out orders. It returns the order that ended it, or nil if it
// ended by itself or with the run.
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

// carryOut carries out an order. gone means that the process has ended.
func (n *node) carryOut(ctx context.Context, p *process, o order) (gone bool) {
	switch o.what {
	case Freeze:
		if p.cmd.Process.Signal(sigStop) == nil {
			timer.Sleep(ctx, o.wait)
			_ = p.cmd.Process.Signal(sigCont) // it may have been killed meanwhile
		}
		return false
	case Restart:
		_ = terminate(p.cmd.Process)                            // it may have just ended
		if !n.wait(ctx, p, drainPatience) && ctx.Err() == nil { // at the end of the run it is killed
			n.crash("it did not end within " + drainPatience.String() + " of SIGTERM")
		}
	}
	n.kill(p)
	return true
}

// drainPatience is how long a process may take to end after SIGTERM. Running calls get 10 s, and an executor that
// cannot find out whether a write was stored waits up to 10 s more.
const drainPatience = 30 * time.Second

func (n *node) kill(p *process) {
	_ = p.cmd.Process.Kill() // it may have just ended
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

// servePoison kills the executors that poison calls name, until ctx ends.
func (c *cluster) servePoison(ctx context.Context) error {
	socket := effects.PoisonSocket(c.ledger())
	_ = os.Remove(socket) // of an earlier run
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("poison calls: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	c.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var pid int
			if _, err = fmt.Fscan(conn, &pid); err == nil {
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill() // it may have just ended
				}
			}
			_ = conn.Close()
		}
	})
	return nil
}

// unexpected records an end that no fault explains. Exit code 1 is expected: a process that cannot reach the servers at
// its start ends with it. A poison call has its executor killed.
func (n *node) unexpected(p *process) {
	state := p.cmd.ProcessState
	poisoned := slices.Contains(executors, n.name) && killed(state)
	if isServer(n.name) || state.ExitCode() != 1 && !poisoned {
		n.crash(state.String())
	}
}

func (n *node) crash(how string) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.crashes = append(n.crashes, fmt.Sprintf("%s ended by itself: %s (see %s)", n.name, how, n.logFile()))
}
