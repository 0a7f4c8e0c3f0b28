//go:build !linux

package supervisor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"time"
)

var errUnsupported = errors.New("process tools need Linux; this is " + runtime.GOOS)

// SupervisorMain prints an error and exits if this process was started as a supervisor: supervisors need Linux.
func SupervisorMain() {
	if len(os.Args) == 1 && os.Args[0] == Name {
		fmt.Fprintln(os.Stderr, "toolbus:", errUnsupported)
		os.Exit(1)
	}
}

// Undumpable does nothing.
func Undumpable() error { return nil }

// ChangeTime returns the zero time.
func ChangeTime(fs.FileInfo) time.Time { return time.Time{} }

// HostReach returns [ReachOwn]: no tool runs as a process.
func HostReach() Reach { return ReachOwn }

// Run is never created on this system: only Linux can reliably end a process tree.
type Run struct{ Stdout io.Reader }

// Start returns an error.
func Start(string, Config, io.Reader, int64) (*Run, error) { return nil, errUnsupported }

func probe(string, time.Duration) error { return errUnsupported }

// End does nothing.
func (*Run) End(Command) {}

// EndsWithin returns true.
func (*Run) EndsWithin(time.Duration) bool { return true }

// Wait returns an error.
func (*Run) Wait() (Report, error) { return Report{}, errUnsupported }

// Stderr returns "".
func (*Run) Stderr() string { return "" }
