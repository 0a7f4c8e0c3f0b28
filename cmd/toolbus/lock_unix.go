//go:build linux || darwin

package main

import (
	"errors"
	"os"
	"syscall"
)

// lock locks the file for this process, or returns errHeld.
func lock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errHeld
	}
	return err
}
