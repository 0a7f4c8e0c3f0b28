//go:build unix

package demo

import (
	"errors"
	"os/exec"
	"syscall"
)

// startInOwnSession starts a program in a new session and process group, as a daemon does, and returns its process id.
func startInOwnSession(program string, args ...string) (pid int, err error) {
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid = cmd.Process.Pid
	return pid, cmd.Process.Release()
}

// gone reports whether no process has the id pid.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
