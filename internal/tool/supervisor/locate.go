package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Locate returns the path of the program of a command. A program with a slash is an absolute path, or a path relative
// to dir. Locate looks up any other program in the absolute folders of path, a value of PATH.
func Locate(program, dir, path string) (string, error) {
	if strings.Contains(program, "/") {
		if !filepath.IsAbs(program) {
			program = filepath.Join(dir, program)
		}
		return program, executable(program)
	}
	for _, folder := range filepath.SplitList(path) {
		candidate := filepath.Join(folder, program)
		if filepath.IsAbs(candidate) && executable(candidate) == nil {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("%s is not in PATH: write its whole path, or set PATH in its environment (PATH=%s)", program,
		path)
}

func executable(program string) error {
	info, err := os.Stat(program)
	if err != nil {
		return err
	}
	switch {
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "execute", Path: program, Err: errors.New("not an executable file")}
	case info.Mode()&0o111 == 0:
		return &fs.PathError{Op: "execute", Path: program, Err: errors.New("not an executable file: chmod +x makes it one")}
	}
	return nil
}
