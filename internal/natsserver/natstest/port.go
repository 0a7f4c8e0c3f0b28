package natstest

import (
	"syscall"
	"testing"
)

// hold binds a free loopback port until t ends. Servers can listen on it, also after a restart. The operating system
// does not give it to other processes that ask for any free port, such as tests that run in parallel.
func hold(t testing.TB) (port int) {
	t.Helper()
	held, port, err := bound(0)
	if err != nil {
		t.Fatalf("natstest: hold a port: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Close(held) }) // nothing was sent
	return port
}

// HoldPair binds a free loopback port, and the one that is above it by offset, until t ends. See hold.
func HoldPair(t testing.TB, offset int) (port int) {
	t.Helper()
	for {
		port := hold(t)
		if held, _, err := bound(port + offset); err == nil {
			t.Cleanup(func() { _ = syscall.Close(held) }) // nothing was sent
			return port
		}
	}
}

// bound returns a socket that is bound to a port but does not listen, so that a server can listen on the port. Port 0
// stands for any that is free.
func bound(port int) (socket, at int, err error) {
	syscall.ForkLock.RLock()
	socket, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, 0, err
	}
	var name syscall.Sockaddr
	if err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(socket, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		name, err = syscall.Getsockname(socket)
	}
	if err != nil {
		_ = syscall.Close(socket)
		return 0, 0, err
	}
	return socket, name.(*syscall.SockaddrInet4).Port, nil
}
