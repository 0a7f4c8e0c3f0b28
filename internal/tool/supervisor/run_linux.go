package supervisor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Run is the executor's side of a program that runs under a supervisor. Read Stdout to its end before Wait.
type Run struct {
	Stdout io.Reader

	cmd      *exec.Cmd // the supervisor
	stdin    *os.File
	stdout   *pipe
	errPipe  *pipe
	stderr   *tail
	grace    time.Duration
	tasks    sync.WaitGroup // runs feed, drain and listen
	reported chan struct{}  // closed when listen has set report and failed
	report   Report
	failed   error

	mu      sync.Mutex // held to write to or close control
	control *os.File   // nil once closed
}

// Start starts program, which [Find] has returned, as the supervisor of cfg, and writes input to the standard input of
// the tool. It keeps at most stderrBytes of the tool's standard error.
func Start(program string, cfg Config, input io.Reader, stderrBytes int64) (*Run, error) {
	ends, err := openEnds()
	if err != nil {
		return nil, err
	}
	defer ends.theirs.close()
	inherited := []*os.File{ends.theirs.control} // becomes ControlFD
	if cfg.Program != nil {
		inherited, cfg.Descriptor = append(inherited, cfg.Program), programFD
	}
	r := &Run{
		cmd: &exec.Cmd{
			Path: program, Args: []string{Name}, Env: []string{}, Dir: "/",
			Stdin: ends.theirs.stdin, Stdout: ends.theirs.stdout, Stderr: ends.theirs.stderr,
			ExtraFiles: inherited, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
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

// start starts the supervisor and sends it cfg.
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

// feed writes the tool's input. It ignores errors, because a tool may end without reading all of it.
func (r *Run) feed(input io.Reader) {
	_, _ = io.Copy(r.stdin, input)
	_ = r.stdin.Close()
}

// drain reads all of standard error, so that the tool never blocks on it, and keeps its beginning and end.
func (r *Run) drain() { _, _ = io.Copy(r.stderr, r.errPipe) }

// listen waits for the supervisor's report.
func (r *Run) listen() {
	defer close(r.reported)
	r.failed = ReadFrame(r.control, &r.report)
	r.stdout.finish()
	r.errPipe.finish()
}

// EndsWithin waits at most d, and reports whether the run has ended.
func (r *Run) EndsWithin(d time.Duration) bool {
	select {
	case <-r.reported:
		return true
	case <-time.After(d):
		return false
	}
}

// End sends order to the supervisor. It does nothing after Wait.
func (r *Run) End(order Command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.control == nil {
		return
	}
	_ = r.control.SetDeadline(time.Now().Add(r.grace + Patience))
	_, _ = r.control.Write([]byte{byte(order)}) // an error means that the supervisor has ended
	_ = r.cmd.Process.Signal(syscall.SIGCONT)   // the tool may have stopped the supervisor
}

// Wait waits until no process of the run is left, and returns the supervisor's report. The error is [ErrSurvivors] if
// processes are left [Patience] after the grace that follows End. Any other error says how the supervisor failed. Read
// Stdout to its end before Wait.
func (r *Run) Wait() (Report, error) {
	<-r.reported
	_ = r.stdin.Close() // ends feed if no process reads the input
	r.tasks.Wait()
	r.close()
	if errors.Is(r.failed, os.ErrDeadlineExceeded) {
		go r.cmd.Wait() // the supervisor keeps killing until the kernel ends the last process
		return Report{}, ErrSurvivors
	}
	if r.failed != nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		return Report{}, fmt.Errorf("its supervisor ended without a report (%v)", r.cmd.ProcessState)
	}
	_ = r.cmd.Wait() // its exit status adds nothing to its report
	return r.report, nil
}

// Stderr returns the beginning and the end of the tool's standard error.
func (r *Run) Stderr() string { return r.stderr.String() }

func (r *Run) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.control.Close()
	r.control = nil
	_ = r.stdout.file.Close()
	_ = r.errPipe.file.Close()
}

// ChangeTime returns the time at which the content or the attributes of a file last changed (ctime). Unlike the
// modification time, a program cannot set it. It is zero if the file system of info has none.
func ChangeTime(info fs.FileInfo) time.Time {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(s.Ctim.Unix())
	}
	return time.Time{}
}

// probe starts a supervisor without a program, and returns an error unless it answers within inTime.
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
