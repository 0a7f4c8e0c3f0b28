package chaos

import (
	"context"
	"os/exec"
	"testing"
	"time"
)

// A run that is interrupted does not wait for a process that is being restarted and takes its time.
func TestRestartEndsWithTheRun(t *testing.T) {
	cmd := exec.Command("sh", "-c", "trap '' TERM; echo; exec sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // the signal is ignored from now on
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
