//go:build !unix

package demo

import "errors"

// startInOwnSession needs sessions; process tools run on Linux only anyway.
func startInOwnSession(string, ...string) (pid int, err error) {
	return 0, errors.ErrUnsupported
}

func gone(int) bool { return false }
