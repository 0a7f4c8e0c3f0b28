// Package rootdir checks paths that a caller gave to a tool which may touch nothing outside of one
// folder. The tool opens that folder as an os.Root, which no symbolic link leads out of; this
// package refuses what is wrong with a path by its words alone, with a reason, and recognises the
// errors of os.Root.
package rootdir

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/seed-018f16cc/toolbus/program"
)

const (
	maxPath = 1024 // bytes; below what every file system takes, with a root before it
	maxName = 255  // bytes of one name, the limit of Linux file systems
)

// Outside says why a path does not lie below the root.
type Outside struct {
	Reason  string // nul, too_long, absolute, parent or symlink
	Message string
}

// Error implements error.
func (o *Outside) Error() string { return o.Message }

// Failure is what a tool says of such a path.
func (o *Outside) Failure(effect program.Effect) error {
	return &program.Error{
		Code: "path_outside", Message: o.Message, Details: map[string]any{"reason": o.Reason}, Effect: effect,
	}
}

// Clean returns the shortest form of a path that its words keep below the root. Its error is an
// *Outside.
func Clean(path string) (string, error) {
	switch {
	case strings.ContainsRune(path, 0):
		return "", &Outside{"nul", "the path has a NUL byte"}
	case len(path) > maxPath:
		return "", &Outside{"too_long", "the path is too long"}
	case filepath.IsAbs(path):
		return "", &Outside{"absolute", "the path is absolute; give it relative to the root"}
	case !filepath.IsLocal(path):
		return "", &Outside{"parent", "the path leads out of the root"}
	}
	for name := range strings.SplitSeq(path, "/") {
		if len(name) > maxName {
			return "", &Outside{"too_long", "a name in the path is too long"}
		}
	}
	return filepath.Clean(path), nil
}

// Escape returns an *Outside if err is the one by which an os.Root refuses a symbolic link, else
// nil. There is no error value for that; it is the only one of its errors for a path that did
// not come from the system.
func Escape(err error) *Outside {
	var system syscall.Errno
	if err == nil || errors.As(err, &system) {
		return nil
	}
	return &Outside{"symlink", "a symbolic link in the path leads out of the root"}
}
