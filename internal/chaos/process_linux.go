package chaos

import (
	"os"
	"os/exec"
	"syscall"
)

// bind makes cmd die with the thread that starts it, so that no process remains if the run is killed.
func bind(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// killed reports whether the process ended by SIGKILL.
func killed(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
