package supervisor

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// Patience is the time after the grace that a killed run has to end. The kernel kills a process at once, unless it is
	// in an uninterruptible system call.
	Patience = 5 * time.Second
	// startPatience is the time in which a supervisor must read its Config.
	startPatience = 10 * time.Second
)

// ErrSurvivors means that processes of a run still existed [Patience] after the grace.
var ErrSurvivors = errors.New("processes survive")

// Find returns the path of a supervisor program, after it has run it once on this host. It uses the configured program,
// or else toolbus-supervisor in the folder of the running executable, or else the running executable itself. The main
// function of that must call [SupervisorMain] first. The separate binary is smaller and starts faster, and a security
// profile can name its path.
func Find(configured string) (program string, err error) {
	if configured != "" {
		program, err = filepath.Abs(configured)
	} else {
		program, err = nearby()
	}
	if err != nil {
		return "", err
	}
	return program, probe(program, startPatience)
}

func nearby() (string, error) {
	if os.Args[0] == Name {
		return "", errors.New("this process was started as a supervisor: call supervisor.SupervisorMain first in main")
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), Name)
	if _, err := exec.LookPath(beside); err == nil {
		return beside, nil
	}
	return "/proc/self/exe", nil // names the running binary even if its file was replaced
}
