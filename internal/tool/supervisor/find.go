package supervisor

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// Patience is how long, beyond the grace, a killed run may take to go. The kernel kills
	// at once; only a process within a system call that cannot be interrupted stays.
	Patience = 5 * time.Second
	// startPatience is how long a supervisor may take to take its orders.
	startPatience = 10 * time.Second
)

// ErrSurvivors means that a run has not gone within [Patience].
var ErrSurvivors = errors.New("processes survive")

// Find returns the program that supervises, after it has seen it work on this host: the configured one or, if that
// is "", toolbus-supervisor beside the running executable, or else the running executable itself, which must then
// call [SupervisorMain] first in main. The small binary starts faster, and has a path of its own that a
// security profile can name.
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
	return "/proc/self/exe", nil // the running binary, even when its file was replaced
}
