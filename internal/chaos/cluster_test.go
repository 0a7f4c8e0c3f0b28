package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
)

// Ending a run does not wait for a process that is slow to end after SIGTERM.
func TestRestartEndsWithTheRun(t *testing.T) {
	cmd := exec.Command("sh", "-c", "trap '' TERM; echo; exec sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // the process ignores the signal from now on
		t.Fatal(err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // it is killed
		close(p.ended)
	}()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	n := &node{cluster: &cluster{}, name: "node"}
	if gone := n.carryOut(over, p, order{what: Restart}); !gone || time.Since(began) > drainPatience/2 ||
		len(n.crashes) > 0 {
		t.Errorf("gone: %t, after %s, %s", gone, time.Since(began), n.crashes)
	}
}

// A run cannot kill its executor, so a poison call has chaos do that.
func TestPoison(t *testing.T) {
	c, victim := &cluster{dir: t.TempDir()}, exec.Command("sleep", "1000")
	ctx, cancel := context.WithCancel(t.Context())
	defer c.wg.Wait()
	defer cancel()
	if err := errors.Join(c.servePoison(ctx), victim.Start()); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", effects.PoisonSocket(c.ledger()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, victim.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := victim.Wait(); !killed(victim.ProcessState) {
		t.Errorf("the executor ended with %v", err)
	}
}
