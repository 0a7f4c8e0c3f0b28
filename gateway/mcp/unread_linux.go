package mcp

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// unread waits until no process can read from the other end of w, and returns true, or until ctx ends, and returns
// false. It detects that for pipes, sockets and terminals.
func unread(ctx context.Context, w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		<-ctx.Done()
		return false
	}
	fd, err := descriptor(f)
	if err != nil {
		<-ctx.Done()
		return false
	}
	wake, waker, err := os.Pipe()
	if err != nil {
		<-ctx.Done()
		return false
	}
	defer func() { _ = wake.Close() }() // nothing is written to it
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = waker.Close(); close(closed) })
	fds := []unix.PollFd{{Fd: fd}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
	for {
		if _, err = unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	gone := err == nil && fds[0].Revents != 0
	if !gone {
		<-ctx.Done() // poll failed, or was woken
	}
	if stop() {
		_ = waker.Close()
	} else {
		<-closed
	}
	return gone
}

// descriptor returns the descriptor of a file and leaves its mode as it is.
func descriptor(f *os.File) (fd int32, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = conn.Control(func(d uintptr) { fd = int32(d) })
	return fd, err
}
