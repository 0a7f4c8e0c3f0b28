package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Run is a program that runs under its supervisor, seen from the executor. Standard output must be read to its
// end before Wait.
type Run struct {
	Stdout io.Reader

	cmd      *exec.Cmd // the supervisor
	stdin    *os.File
	stdout   *pipe
	errPipe  *pipe
	stderr   *tail
	grace    time.Duration
	tasks    sync.WaitGroup // feed, drain and listen
	reported chan struct{}  // closed when listen has set the next two
	report   Report
	failed   error

	mu      sync.Mutex // held to use or close control
	control *os.File   // nil once closed
}

// Start starts program, as [Find] returns one, as the supervisor of cfg, and hands input to what it runs. Of its
// standard error stderrBytes are kept.
func Start(program string, cfg Config, input io.Reader, stderrBytes int64) (*Run, error) {
	ends, err := openEnds()
	if err != nil {
		return nil, err
	}
	defer ends.theirs.close()
	r := &Run{
		cmd: &exec.Cmd{
			Path: program, Args: []string{Name}, Env: []string{}, Dir: "/",
			Stdin: ends.theirs.stdin, Stdout: ends.theirs.stdout, Stderr: ends.theirs.stderr,
			ExtraFiles:  []*os.File{ends.theirs.control}, // becomes ControlFD
			SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		},
		stdin: ends.ours.stdin, stdout: &pipe{file: ends.ours.stdout}, errPipe: &pipe{file: ends.ours.stderr},
		stderr: newTail(stderrBytes), grace: time.Duration(cfg.GraceMS) * time.Millisecond,
		reported: make(chan struct{}), control: ends.ours.control,
	}
	if err := r.start(cfg); err != nil {
		ends.ours.close()
		return nil, err
	}
	r.Stdout = r.stdout
	r.tasks.Go(func() { r.feed(input) })
	r.tasks.Go(r.drain)
	r.tasks.Go(r.listen)
	return r, nil
}

// start starts the supervisor and tells it what to run.
func (r *Run) start(cfg Config) error {
	if err := r.cmd.Start(); err != nil {
		return err
	}
	_ = r.control.SetWriteDeadline(time.Now().Add(startPatience))
	if err := WriteFrame(r.control, cfg); err != nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		return fmt.Errorf("tell the supervisor what to run: %w", err)
	}
	return nil
}

// feed writes the tool's input. A tool may end without reading it, so errors say nothing.
func (r *Run) feed(input io.Reader) {
	_, _ = io.Copy(r.stdin, input)
	_ = r.stdin.Close()
}

// drain keeps the ends of standard error and throws the rest away, so that no tool blocks on it.
func (r *Run) drain() { _, _ = io.Copy(r.stderr, r.errPipe) }

// listen waits for the supervisor's report.
func (r *Run) listen() {
	defer close(r.reported)
	r.failed = ReadFrame(r.control, &r.report)
	r.stdout.finish()
	r.errPipe.finish()
}

// EndsWithin reports whether the run ends by itself within d.
func (r *Run) EndsWithin(d time.Duration) bool {
	select {
	case <-r.reported:
		return true
	case <-time.After(d):
		return false
	}
}

// End orders the supervisor to end the run.
func (r *Run) End(order Command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.control == nil {
		return
	}
	_ = r.control.SetDeadline(time.Now().Add(r.grace + Patience))
	_, _ = r.control.Write([]byte{byte(order)}) // a supervisor that is gone has reported, or never will
	_ = r.cmd.Process.Signal(syscall.SIGCONT)   // one that the tool stopped hears it, too
}

// Wait returns the supervisor's report when nothing of the run is left. The error is
// [ErrSurvivors] if something is, or says how the supervisor failed. Standard output must have
// been read before.
func (r *Run) Wait() (Report, error) {
	<-r.reported
	_ = r.stdin.Close() // feed may still wait for somebody to read
	r.tasks.Wait()
	r.close()
	if errors.Is(r.failed, os.ErrDeadlineExceeded) {
		go r.cmd.Wait() // the supervisor goes on killing; this ends when the kernel lets go
		return Report{}, ErrSurvivors
	}
	if r.failed != nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		return Report{}, fmt.Errorf("its supervisor ended without a report (%v)", r.cmd.ProcessState)
	}
	_ = r.cmd.Wait() // it has said all by its report
	return r.report, nil
}

// Stderr returns the beginning and the end of what was written to standard error.
func (r *Run) Stderr() string { return r.stderr.String() }

func (r *Run) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.control.Close()
	r.control = nil
	_ = r.stdout.file.Close()
	_ = r.errPipe.file.Close()
}

// probe starts a supervisor that has nothing to run and sees that it answers in time.
func probe(program string, inTime time.Duration) error {
	r, err := Start(program, Config{}, strings.NewReader(""), 1<<10)
	if err != nil {
		return fmt.Errorf("start supervisor %s: %w", program, err)
	}
	_ = r.control.SetReadDeadline(time.Now().Add(inTime))
	report, err := r.Wait()
	switch {
	case errors.Is(err, ErrSurvivors):
		_ = r.cmd.Process.Kill()
		return fmt.Errorf("supervisor %s does not answer: is supervisor.SupervisorMain the first call of its main?", program)
	case err != nil:
		return fmt.Errorf("supervisor %s: %w: %s", program, err, r.stderr)
	case report.Failure != "":
		return fmt.Errorf("supervisor %s cannot work on this host: %s", program, report.Failure)
	}
	return nil
}
