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

// SupervisorMain supervises a run and does not return, if this process was started as a supervisor. Otherwise it does
// nothing. Call it first in main, and in TestMain, of every binary that runs tools as processes and may be its own
// supervisor.
func SupervisorMain() {
	if len(os.Args) == 1 && os.Args[0] == Name {
		// Not os.Exit: a binary with the race detector would sleep a second, and there is nothing to flush.
		syscall.Exit(run())
	}
}

// run supervises one run and returns the exit status of the supervisor.
func run() int {
	// The tool's parent death signal refers to the thread that starts it. The giving up of new privileges and the Landlock
	// domain are properties of a thread.
	runtime.LockOSThread()
	// Signals to this process are signals to its first thread, so that must be in the domain, too. Go has rarely moved the
	// main goroutine to another thread by now; then the process begins again.
	if unix.Gettid() != os.Getpid() {
		_ = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
		return 1
	}
	if err := unix.SetNonblock(ControlFD, true); err != nil { // else reading it would block a thread
		return 1
	}
	unix.CloseOnExec(ControlFD)
	unix.CloseOnExec(programFD) // if it is open
	return serve(os.NewFile(ControlFD, "control"), letGoOfStdio)
}

// serve supervises one run. It calls started when the program runs.
func serve(control *os.File, started func()) int {
	if err := harden(); err != nil {
		return answer(control, Report{Failure: err.Error()})
	}
	var cfg Config
	if err := ReadFrame(control, &cfg); err != nil {
		return 1 // the executor has died, or a program that is not an executor started this process
	}
	if cfg.Path == "" { // a probe of whether supervisors work on this host
		return answer(control, Report{})
	}
	// Catch signals that would end this process, before it could leave a run alone. Do not ignore them: the tool would
	// inherit an ignored signal.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	pid, err := start(cfg)
	if err != nil {
		return answer(control, Report{Failure: notStarted(cfg.Path, err)})
	}
	started()
	return answer(control, supervise(pid, cfg, control, signals))
}

// notStarted returns the reason why a program was not started. The kernel does not say what it misses in a text.
func notStarted(program string, err error) string {
	if errors.Is(err, syscall.ENOEXEC) {
		if doubt := Startable(program); doubt != nil {
			return doubt.Error()
		}
	}
	return fmt.Sprintf("start %s: %v", program, err)
}

func answer(control *os.File, r Report) int {
	if err := WriteFrame(control, r); err != nil {
		return 1
	}
	return 0
}

// harden prepares this process before the tool starts: it closes inherited descriptors, becomes a child subreaper,
// protects itself from the tool, and enters the domain of the run.
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
	// Neither the tool nor its children may gain privileges, or the supervisor could not signal them.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if err := confine(landlockVersion()); err != nil {
		return fmt.Errorf("enter a Landlock domain: %w", err)
	}
	if _, err := children(os.Getpid()); err != nil {
		return fmt.Errorf("read the process tree (needs /proc with CONFIG_PROC_CHILDREN): %w", err)
	}
	return nil
}

// Undumpable prevents processes of the same user, such as tools, from attaching to this process, and from reading its
// environment, memory and open files in /proc. Processes with CAP_SYS_PTRACE, such as those of root, still can. The
// kernel writes no core dump of this process. Calling Undumpable again changes nothing.
func Undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("become undumpable: %w", err)
	}
	return nil
}

// closeInherited closes every inherited descriptor except standard input, output, error and control. Descriptors that
// this process opened itself are close-on-exec, which tells them apart.
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

// start starts the program in its own session, so that signals to its process group do not reach this process.
func start(cfg Config) (pid int, err error) {
	return syscall.ForkExec(cfg.executable(), cfg.Args, &syscall.ProcAttr{
		Dir:   cfg.Dir,
		Env:   cfg.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
}

// letGoOfStdio replaces this process's standard streams with /dev/null. Only the tool then holds the pipes, so they
// close when it ends.
func letGoOfStdio() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 3 {
		if err != nil || unix.Dup3(null, fd, 0) != nil {
			unix.Close(fd)
		}
	}
}

// supervise waits until no process of the run is left. It ends the run on a Command, after the limit, and on a signal.
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
		if t.reap(); t.terminate() { // note processes that ended before the signal
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

// readCommands passes commands on. The end of the socket counts as Kill.
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

// tree is the state of the run's processes.
type tree struct {
	pid     int  // the program itself; 0 after it has ended
	stopped bool // the run was signalled
	told    bool // on a Command or after the limit, not because this process got a signal
	killing bool // all processes must be killed
	cpu     time.Duration
	report  Report
}

// terminate sends SIGTERM to the process group of the program, and reports whether the grace begins. It does nothing if
// the run is being ended already.
func (t *tree) terminate() bool {
	if t.stopped || t.killing {
		return false
	}
	t.stopped, t.told = true, true
	unix.Kill(-t.pid, unix.SIGTERM)
	return true
}

// reap records every child that has ended, and reports whether a child is left. Every process of the run has an
// ancestor among the children of this process, so without a child the run has no process.
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

// note records the end of one child. When the program itself has ended, the processes that it left are killed.
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
