package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SupervisorMain turns this process into a supervisor and does not return, if it was started
// as one. Call it first in main, and in TestMain, of every binary that uses the process adapter.
func SupervisorMain() {
	if len(os.Args) == 1 && os.Args[0] == Name {
		// Not os.Exit: there is nothing to flush, and a binary with the race detector would
		// sleep a second.
		syscall.Exit(run())
	}
}

// run supervises one run and returns the exit status of the supervisor.
func run() int {
	// The tool gets a death signal tied to the thread that starts it, and no_new_privs is a
	// property of a thread.
	runtime.LockOSThread()
	if err := unix.SetNonblock(ControlFD, true); err != nil { // saves the thread that would block in its read
		return 1
	}
	unix.CloseOnExec(ControlFD)
	return serve(os.NewFile(ControlFD, "control"), letGoOfStdio)
}

// serve supervises one run. started is called when the program runs.
func serve(control *os.File, started func()) int {
	if err := harden(); err != nil {
		return answer(control, Report{Failure: err.Error()})
	}
	var cfg Config
	if err := ReadFrame(control, &cfg); err != nil {
		return 1 // the executor is gone, or is none of ours
	}
	if cfg.Path == "" { // a probe: it asks whether supervisors work here
		return answer(control, Report{})
	}
	// What would end this process is caught before there is a run that it could leave alone. It is not ignored: an
	// ignored signal would stay ignored in the tool.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	pid, err := start(cfg)
	if err != nil {
		return answer(control, Report{Failure: fmt.Sprintf("start %s: %v", cfg.Path, err)})
	}
	started()
	return answer(control, supervise(pid, cfg, control, signals))
}

func answer(control *os.File, r Report) int {
	if err := WriteFrame(control, r); err != nil {
		return 1
	}
	return 0
}

// harden makes the process fit to supervise before anything of the tool exists.
func harden() error {
	if err := closeInherited(); err != nil {
		return fmt.Errorf("close inherited descriptors: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become child subreaper: %w", err)
	}
	if err := Undumpable(); err != nil {
		return err
	}
	// The tool gains no privileges by which it or its children would escape the supervisor's signals.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if _, err := children(os.Getpid()); err != nil {
		return fmt.Errorf("read the process tree (needs /proc with CONFIG_PROC_CHILDREN): %w", err)
	}
	return nil
}

// Undumpable keeps the processes of the same user, such as tools, from attaching to this process, and from reading its
// environment, memory and open files below /proc. Processes with CAP_SYS_PTRACE, such as those of root, still can. The
// kernel writes no core dump of the process. Calling it again changes nothing.
func Undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("become undumpable: %w", err)
	}
	return nil
}

// closeInherited closes every descriptor that came with the exec, except standard input,
// output, error and control. What this process opened by itself is close-on-exec.
func closeInherited() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= ControlFD {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}

// start runs the program in a session of its own, so that signals to its group stay there.
func start(cfg Config) (pid int, err error) {
	return syscall.ForkExec(cfg.Path, cfg.Args, &syscall.ProcAttr{
		Dir:   cfg.Dir,
		Env:   cfg.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
}

// letGoOfStdio leaves the pipes to the tool alone, so that its end is their end.
func letGoOfStdio() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 3 {
		if err != nil || unix.Dup3(null, fd, 0) != nil {
			unix.Close(fd)
		}
	}
}

// supervise waits until nothing of the run is left, ending it when told to, when it is over its limit, or at a
// signal.
func supervise(pid int, cfg Config, control *os.File, signals <-chan os.Signal) Report {
	deaths, commands := make(chan os.Signal, 1), make(chan Command)
	signal.Notify(deaths, unix.SIGCHLD)
	go readCommands(control, commands)

	t := tree{pid: pid}
	var limit, graceOver, again <-chan time.Time
	if cfg.LimitMS > 0 {
		limit = time.After(time.Duration(cfg.LimitMS)*time.Millisecond + Overdue)
	}
	terminate := func() (ended bool) {
		if t.reap(); t.terminate() { // what has ended by now has not ended by this
			graceOver, ended = time.After(time.Duration(cfg.GraceMS)*time.Millisecond), true
		}
		return ended
	}
	pause := time.Millisecond
	for t.reap() {
		if t.killing {
			sweep()
			again = time.After(pause)
		}
		select {
		case <-deaths:
		case c := <-commands:
			switch c {
			case Kill:
				t.reap() // as in terminate
				t.stopped, t.told, t.killing = true, true, true
			case Terminate:
				terminate()
			}
		case <-limit:
			t.report.Expired = terminate()
		case <-graceOver:
			t.killing = true
		case <-signals:
			t.stopped, t.killing = true, true
		case <-again:
			pause = min(2*pause, 50*time.Millisecond)
		}
	}
	return t.report
}

// readCommands passes commands on; the end of the socket is a Kill.
func readCommands(control *os.File, commands chan<- Command) {
	one := make([]byte, 1)
	for {
		if _, err := control.Read(one); err != nil {
			commands <- Kill
			return
		}
		commands <- Command(one[0])
	}
}

// tree is what is known of the run's processes.
type tree struct {
	pid     int  // the program itself
	stopped bool // it was signalled
	told    bool // as the executor said, and not because a signal came from elsewhere
	killing bool // everything is to go
	cpu     time.Duration
	report  Report
}

// terminate tells the program to end, and reports whether it is to have its grace: not if it is being ended already.
func (t *tree) terminate() bool {
	if t.stopped || t.killing {
		return false
	}
	t.stopped, t.told = true, true
	unix.Kill(-t.pid, unix.SIGTERM)
	return true
}

// reap takes note of every process that has ended as our child, and says whether any is left.
// A process of the run has an ancestor among our children as long as it lives, so no child
// means no process.
func (t *tree) reap() bool {
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, &usage)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false
		case pid == 0:
			return true
		default:
			t.note(pid, status, &usage)
		}
	}
}

// note takes note of one end. When the program itself ends, the daemons it left are to go.
func (t *tree) note(pid int, status unix.WaitStatus, usage *unix.Rusage) {
	t.cpu += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	t.report.CPUMS = t.cpu.Milliseconds()
	t.report.PeakRSS = max(t.report.PeakRSS, usage.Maxrss*1024)
	switch {
	case pid == t.pid:
		t.report.ExitCode, t.report.Signal = status.ExitStatus(), ""
		if status.Signaled() {
			t.report.Signal = status.Signal().String()
			t.report.Ours = t.told && (status.Signal() == unix.SIGTERM || t.killing && status.Signal() == unix.SIGKILL)
		}
		t.report.Stopped = t.stopped
		t.pid, t.killing = 0, true
	case t.pid == 0 && status.Signaled():
		t.report.Leftover++
	}
}
