//go:build !unix

package demo

import "errors"

// startInOwnSession is not supported without sessions. Process tools run only on Linux in any case.
func startInOwnSession(string, ...string) (pid int, err error) {
	return 0, errors.ErrUnsupported
}

func gone(int) bool { return false }
