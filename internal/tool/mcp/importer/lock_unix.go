//go:build linux || darwin

package importer

import (
	"os"
	"syscall"
)

// locked does something to a folder while no other import does: each writes all servers anew.
func locked(dir string, do func() error) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close() // which ends the lock
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX); err != nil {
		return &os.PathError{Op: "lock", Path: dir, Err: err}
	}
	return do()
}
