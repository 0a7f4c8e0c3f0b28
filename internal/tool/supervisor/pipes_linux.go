package supervisor

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// files are the four pipes and sockets between an adapter and a run, at one end.
type files struct{ stdin, stdout, stderr, control *os.File }

func (f files) close() {
	for _, file := range []*os.File{f.stdin, f.stdout, f.stderr, f.control} {
		if file != nil {
			_ = file.Close()
		}
	}
}

// ends are both ends. All descriptors are close-on-exec. The supervisor inherits only those that exec.Cmd passes on.
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
	err = unix.SetNonblock(pair[0], true) // so that deadlines work
	e.ours.control, e.theirs.control = os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	return e, err
}

// pipe reads the output of a run. Read returns io.EOF when all processes of the run have closed the other end, or after
// finish when all bytes in the pipe are read. Without finish, a process outside the run that got the other end could
// keep Read waiting for ever.
type pipe struct {
	file     *os.File
	finished atomic.Bool
	counted  bool
	left     int // unread bytes, once counted
}

// finish tells the reader that no process of the run is left to write, and wakes it.
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

// readRest reads the bytes that are in the pipe already.
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

// count asks the kernel for the number of bytes in the pipe.
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
