//go:build unix

package demo

import (
	"errors"
	"os/exec"
	"syscall"
)

// startInOwnSession starts a program that leaves its parent's session and process group, as
// daemons do, and returns its process id.
func startInOwnSession(program string, args ...string) (pid int, err error) {
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid = cmd.Process.Pid
	return pid, cmd.Process.Release()
}

// gone reports whether there is no process pid.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
