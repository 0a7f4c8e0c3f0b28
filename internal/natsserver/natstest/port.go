package natstest

import (
	"syscall"
	"testing"
)

// hold finds a free port of the loopback interface and keeps it until t ends: servers may listen on it, and the
// system gives it to nobody who asks for any free one, as tests that run beside this one do all the time, also
// while the server is away.
func hold(t testing.TB) (port int) {
	t.Helper()
	held, err := bound()
	if err != nil {
		t.Fatalf("natstest: hold a port: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Close(held) }) // nothing was sent
	at, err := syscall.Getsockname(held)
	if err != nil {
		t.Fatalf("natstest: hold a port: %v", err)
	}
	return at.(*syscall.SockaddrInet4).Port
}

// bound returns a socket that has a port and does not listen, so that a listener may have the port, too.
func bound() (socket int, err error) {
	syscall.ForkLock.RLock()
	socket, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, err
	}
	if err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err != nil {
		_ = syscall.Close(socket)
	}
	return socket, err
}
