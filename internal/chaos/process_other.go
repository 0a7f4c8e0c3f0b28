//go:build !linux

package chaos

import (
	"os"
	"os/exec"
	"syscall"
)

func bind(*exec.Cmd) {}

const (
	sigStop = syscall.Signal(0) // never used: process tools need Linux, so a run fails before
	sigCont = syscall.Signal(0)
)

func terminate(p *os.Process) error { return p.Kill() }

func killed(*os.ProcessState) bool { return false }
