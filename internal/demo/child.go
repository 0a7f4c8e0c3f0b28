package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// child is an executor process that the demo has started.
type child struct {
	cmd    *exec.Cmd
	stderr *lastWords
	spoke  chan struct{} // closed at the first output line, which means that it is ready
	once   sync.Once
	ended  chan struct{}
	err    error // its exit error; read it after ended is closed
}

// startChild starts the program. When ctx ends, the program gets an interrupt signal.
func startChild(ctx context.Context, program string, environ []string, args ...string) (*child, error) {
	c := &child{spoke: make(chan struct{}), ended: make(chan struct{}), stderr: &lastWords{}}
	c.cmd = exec.CommandContext(ctx, program, args...)
	c.cmd.Env = environ
	c.cmd.Stderr = c.stderr
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(os.Interrupt) }
	c.cmd.WaitDelay = stopTime
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.watch(stdout) // ends with the process; stop waits for it
	return c, nil
}

func (c *child) watch(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		c.once.Do(func() { close(c.spoke) })
	}
	c.err = c.cmd.Wait()
	close(c.ended)
}

// ready waits until the process is ready.
func (c *child) ready(ctx context.Context) error {
	select {
	case <-c.spoke:
		return nil
	case <-c.ended:
		return fmt.Errorf("executor ended at once: %w\n%s", errors.Join(c.err), c.stderr.String())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// kill kills the process with SIGKILL and waits for it.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended already
	<-c.ended
}

// stopTime is how long an executor may take to shut down.
const stopTime = 15 * time.Second

func (c *child) stop() {
	_ = c.cmd.Process.Signal(os.Interrupt) // it may have ended already
	select {
	case <-c.ended:
	case <-time.After(stopTime):
		c.kill()
	}
}

// lastWords keeps the first 4096 bytes of a process's standard error.
type lastWords struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if room := 4096 - w.text.Len(); room > 0 {
		w.text.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}
