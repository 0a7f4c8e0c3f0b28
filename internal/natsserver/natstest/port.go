package natstest

import (
	"syscall"
	"testing"
)

// hold binds a free loopback port until t ends. Servers can listen on it, also after a restart. The operating system
// does not give it to other processes that ask for any free port, such as tests that run in parallel.
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

// bound returns a socket that is bound to a port but does not listen, so that a server can listen on the port.
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
