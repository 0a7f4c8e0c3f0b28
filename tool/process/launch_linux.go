package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/seed-018f16cc/toolbus/tool/process/supervisor"
)

// child is a tool that runs under its supervisor.
type child struct {
	cmd      *exec.Cmd // the supervisor
	stdin    *os.File
	stdout   *pipe
	errPipe  *pipe
	stderr   *tail
	grace    time.Duration
	tasks    sync.WaitGroup // feed, drain and listen
	reported chan struct{}  // closed when listen has set the next two
	report   supervisor.Report
	failed   error

	mu      sync.Mutex // held to use or close control
	control *os.File   // nil once closed
}

// launch starts program as the supervisor of cfg and hands input to the tool.
func launch(program string, cfg supervisor.Config, input []byte, stderrBytes int64) (*child, error) {
	ends, err := openEnds()
	if err != nil {
		return nil, err
	}
	defer ends.theirs.close()
	c := &child{
		cmd: &exec.Cmd{
			Path: program, Args: []string{supervisor.Name}, Env: []string{}, Dir: "/",
			Stdin: ends.theirs.stdin, Stdout: ends.theirs.stdout, Stderr: ends.theirs.stderr,
			ExtraFiles:  []*os.File{ends.theirs.control}, // becomes supervisor.ControlFD
			SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		},
		stdin: ends.ours.stdin, stdout: &pipe{file: ends.ours.stdout}, errPipe: &pipe{file: ends.ours.stderr},
		stderr: newTail(stderrBytes), grace: time.Duration(cfg.GraceMS) * time.Millisecond, reported: make(chan struct{}), control: ends.ours.control,
	}
	if err := c.start(cfg); err != nil {
		ends.ours.close()
		return nil, err
	}
	c.tasks.Go(func() { c.feed(input) })
	c.tasks.Go(c.drain)
	c.tasks.Go(c.listen)
	return c, nil
}

// start starts the supervisor and tells it what to run.
func (c *child) start(cfg supervisor.Config) error {
	if err := c.cmd.Start(); err != nil {
		return err
	}
	_ = c.control.SetWriteDeadline(time.Now().Add(startPatience))
	if err := supervisor.WriteFrame(c.control, cfg); err != nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		return fmt.Errorf("tell the supervisor what to run: %w", err)
	}
	return nil
}

// feed writes the tool's input. A tool may end without reading it, so errors say nothing.
func (c *child) feed(input []byte) {
	_, _ = io.Copy(c.stdin, bytes.NewReader(input))
	_ = c.stdin.Close()
}

// drain keeps the ends of standard error and throws the rest away, so that no tool blocks on it.
func (c *child) drain() { _, _ = io.Copy(c.stderr, c.errPipe) }

// listen waits for the supervisor's report.
func (c *child) listen() {
	defer close(c.reported)
	c.failed = supervisor.ReadFrame(c.control, &c.report)
	c.stdout.finish()
	c.errPipe.finish()
}

// endsWithin reports whether the run ends by itself within d.
func (c *child) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.reported:
		return true
	case <-timer.C:
		return false
	}
}

// end orders the supervisor to end the run.
func (c *child) end(order supervisor.Command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.control == nil {
		return
	}
	_ = c.control.SetDeadline(time.Now().Add(c.grace + patience))
	_, _ = c.control.Write([]byte{byte(order)}) // a supervisor that is gone has reported, or never will
	_ = c.cmd.Process.Signal(syscall.SIGCONT)   // one that the tool stopped hears it, too
}

// wait returns the supervisor's report when nothing of the run is left. The error is
// errSurvivors if something is, or says how the supervisor failed. Standard output must have
// been read before.
func (c *child) wait() (supervisor.Report, error) {
	<-c.reported
	_ = c.stdin.Close() // feed may still wait for somebody to read
	c.tasks.Wait()
	c.close()
	if errors.Is(c.failed, os.ErrDeadlineExceeded) {
		go c.cmd.Wait() // the supervisor goes on killing; this ends when the kernel lets go
		return supervisor.Report{}, errSurvivors
	}
	if c.failed != nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		return supervisor.Report{}, fmt.Errorf("its supervisor ended without a report (%v)", c.cmd.ProcessState)
	}
	_ = c.cmd.Wait() // it has said all by its report
	return c.report, nil
}

func (c *child) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.control.Close()
	c.control = nil
	_ = c.stdout.file.Close()
	_ = c.errPipe.file.Close()
}

// probe starts a supervisor that has nothing to run and sees that it answers in time.
func probe(program string, inTime time.Duration) error {
	c, err := launch(program, supervisor.Config{}, nil, 1<<10)
	if err != nil {
		return fmt.Errorf("start supervisor %s: %w", program, err)
	}
	_ = c.control.SetReadDeadline(time.Now().Add(inTime))
	report, err := c.wait()
	switch {
	case errors.Is(err, errSurvivors):
		_ = c.cmd.Process.Kill()
		return fmt.Errorf("supervisor %s does not answer: is process.RunIfSupervisor the first call of its main?", program)
	case err != nil:
		return fmt.Errorf("supervisor %s: %w: %s", program, err, c.stderr)
	case report.Failure != "":
		return fmt.Errorf("supervisor %s cannot work on this host: %s", program, report.Failure)
	}
	return nil
}
