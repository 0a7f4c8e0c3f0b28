// Package process runs processes of the toolbus command that say in a file when they are ready, and ends them.
package process

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
)

// Process is one that is ready.
type Process struct {
	PID   int
	Said  string        // what it wrote to its ready file
	Ready time.Duration // how long that took

	name   string
	cmd    *exec.Cmd
	err    strings.Builder // what it wrote to standard error; read once it is gone
	gone   chan struct{}
	failed error // with which it ended
}

// StartTimeout bounds the start of a process.
const StartTimeout = 60 * time.Second

// endTimeout bounds the end of one that was asked to end.
const endTimeout = 20 * time.Second

// Start runs the command self with args, and waits until it is ready.
func Start(ctx context.Context, self, dir, name string, args ...string) (*Process, error) {
	if self == "" {
		return nil, errors.New("no toolbus command to start child processes with")
	}
	file := filepath.Join(dir, name+".ready")
	_ = os.Remove(file) // of a former process of the name
	p := &Process{name: name, gone: make(chan struct{}), cmd: exec.Command(self, append(args, "--ready-file", file)...)}
	p.cmd.Stderr = &p.err
	started := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.PID = p.cmd.Process.Pid
	go func() { p.failed = p.cmd.Wait(); close(p.gone) }() // Stop waits for it
	ctx, cancel := context.WithTimeoutCause(ctx, StartTimeout, fmt.Errorf("%s is not ready after %s", name, StartTimeout))
	defer cancel()
	for {
		if text, err := os.ReadFile(file); err == nil {
			p.Said, p.Ready = strings.TrimSpace(string(text)), time.Since(started)
			return p, nil
		}
		select {
		case <-p.gone:
			return nil, fmt.Errorf("%s ended: %s", name, strings.TrimSpace(p.err.String()))
		case <-ctx.Done():
			p.Stop()
			return nil, fmt.Errorf("%w: %s", context.Cause(ctx), strings.TrimSpace(p.err.String()))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Wait waits until the process ends by itself, without an error.
func (p *Process) Wait() error {
	<-p.gone
	if p.failed != nil {
		return fmt.Errorf("%s: %w: %s", p.name, p.failed, strings.TrimSpace(p.err.String()))
	}
	return nil
}

// Stop asks the process to end, and kills it when it does not.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-p.gone:
	case <-time.After(endTimeout):
		_ = p.cmd.Process.Kill()
		<-p.gone
	}
}
