package supervisor

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// files are the four connections between an adapter and a run, seen from one side.
type files struct{ stdin, stdout, stderr, control *os.File }

func (f files) close() {
	for _, file := range []*os.File{f.stdin, f.stdout, f.stderr, f.control} {
		if file != nil {
			_ = file.Close()
		}
	}
}

// ends are both sides. All descriptors are close-on-exec; only what exec is told to pass on
// reaches the supervisor.
type ends struct{ ours, theirs files }

func openEnds() (e ends, err error) {
	defer func() {
		if err != nil {
			e.ours.close()
			e.theirs.close()
		}
	}()
	if e.theirs.stdin, e.ours.stdin, err = os.Pipe(); err != nil {
		return e, err
	}
	if e.ours.stdout, e.theirs.stdout, err = os.Pipe(); err != nil {
		return e, err
	}
	if e.ours.stderr, e.theirs.stderr, err = os.Pipe(); err != nil {
		return e, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return e, os.NewSyscallError("socketpair", err)
	}
	err = unix.SetNonblock(pair[0], true) // so that it takes deadlines
	e.ours.control, e.theirs.control = os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	return e, err
}

// pipe reads what a run writes. It ends when all of the run have closed it, or when the run is
// over and what it wrote is read: a process outside the run may have been handed the other end
// and keep it open for ever.
type pipe struct {
	file     *os.File
	finished atomic.Bool
	counted  bool
	left     int // bytes, once counted
}

// finish says that nothing of the run is left to write, and wakes the reader.
func (p *pipe) finish() {
	p.finished.Store(true)
	_ = p.file.SetReadDeadline(time.Unix(1, 0))
}

// Read implements io.Reader.
func (p *pipe) Read(b []byte) (int, error) {
	if !p.finished.Load() {
		n, err := p.file.Read(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
	return p.readRest(b)
}

// readRest reads what is in the pipe already.
func (p *pipe) readRest(b []byte) (int, error) {
	if !p.counted {
		p.counted = true
		if err := p.count(); err != nil {
			return 0, err
		}
	}
	if p.left <= 0 {
		return 0, io.EOF
	}
	n, err := p.file.Read(b[:min(len(b), p.left)])
	p.left -= n
	return n, err
}

// count asks the kernel how much is in the pipe.
func (p *pipe) count() error {
	if err := p.file.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { p.left, failed = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return errors.Join(err, failed)
}
