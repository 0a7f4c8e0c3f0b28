//go:build linux || darwin

package importer

import (
	"os"
	"syscall"
)

// locked calls do while it holds an exclusive lock on the folder, because each import rewrites all servers.
func locked(dir string, do func() error) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close() // releases the lock
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX); err != nil {
		return &os.PathError{Op: "lock", Path: dir, Err: err}
	}
	return do()
}
