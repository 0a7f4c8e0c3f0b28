//go:build !linux

package process

import (
	"errors"
	"runtime"
	"time"

	"github.com/seed-018f16cc/toolbus/tool/process/supervisor"
)

var errUnsupported = errors.New("process tools need Linux; this is " + runtime.GOOS)

// child does not exist here: nothing outside Linux ends a process tree for certain.
type child struct {
	stdout *neverReader
	stderr *tail
}

type neverReader struct{}

func (*neverReader) Read([]byte) (int, error) { return 0, errUnsupported }

func launch(string, supervisor.Config, []byte, int64) (*child, error) { return nil, errUnsupported }

func probe(string, time.Duration) error { return errUnsupported }

func (*child) end(supervisor.Command) {}

func (*child) endsWithin(time.Duration) bool { return true }

func (*child) wait() (supervisor.Report, error) { return supervisor.Report{}, errUnsupported }
