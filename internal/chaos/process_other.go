//go:build !linux

package chaos

import (
	"os"
	"os/exec"
	"syscall"
)

func bind(*exec.Cmd) {}

const (
	sigStop = syscall.Signal(0) // process tools need Linux, so a run does not come this far
	sigCont = syscall.Signal(0)
)

func terminate(p *os.Process) error { return p.Kill() }

func killed(*os.ProcessState) bool { return false }
