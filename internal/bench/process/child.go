// Package process starts processes of the toolbus command, waits until they are ready, and stops them.
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

// Process is a running process that was ready.
type Process struct {
	PID   int
	Said  string        // content of its ready file
	Ready time.Duration // time from the start until it was ready

	name   string
	cmd    *exec.Cmd
	err    tail // of its standard error; read after it has ended
	gone   chan struct{}
	failed error // error with which it ended
}

// tail keeps at least the last maxTail bytes that are written to it: a process logs each call.
type tail struct{ text []byte }

const maxTail = 64 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if n := len(t.text); n > 2*maxTail {
		t.text = append(t.text[:0], t.text[n-maxTail:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.text) }

// StartTimeout limits the time until a process is ready.
const StartTimeout = 60 * time.Second

// endTimeout is the time after SIGTERM after which a process is killed.
const endTimeout = 20 * time.Second

// Start runs the command self with args, and waits until it has written its ready file.
func Start(ctx context.Context, self, dir, name string, args ...string) (*Process, error) {
	if self == "" {
		return nil, errors.New("no toolbus command to start child processes with")
	}
	file := filepath.Join(dir, name+".ready")
	_ = os.Remove(file) // of an earlier process with this name
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

// Wait waits until the process ends. It returns an error if the process fails.
func (p *Process) Wait() error {
	<-p.gone
	if p.failed != nil {
		return fmt.Errorf("%s: %w: %s", p.name, p.failed, strings.TrimSpace(p.err.String()))
	}
	return nil
}

// Stop sends SIGTERM to the process and waits for it. It kills a process that does not end within endTimeout.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // the process may have ended
	select {
	case <-p.gone:
	case <-time.After(endTimeout):
		_ = p.cmd.Process.Kill()
		<-p.gone
	}
}
