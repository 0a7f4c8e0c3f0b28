//go:build !linux

package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

var errUnsupported = errors.New("process tools need Linux; this is " + runtime.GOOS)

// SupervisorMain refuses: supervisors need Linux.
func SupervisorMain() {
	if len(os.Args) == 1 && os.Args[0] == Name {
		fmt.Fprintln(os.Stderr, "toolbus:", errUnsupported)
		os.Exit(1)
	}
}

// Undumpable does nothing.
func Undumpable() error { return nil }

// Run does not exist here: nothing outside Linux ends a process tree for certain.
type Run struct{ Stdout io.Reader }

// Start refuses, as all of them do.
func Start(string, Config, io.Reader, int64) (*Run, error) { return nil, errUnsupported }

func probe(string, time.Duration) error { return errUnsupported }

// End does nothing.
func (*Run) End(Command) {}

// EndsWithin reports that nothing runs.
func (*Run) EndsWithin(time.Duration) bool { return true }

// Wait refuses.
func (*Run) Wait() (Report, error) { return Report{}, errUnsupported }

// Stderr is empty.
func (*Run) Stderr() string { return "" }
