package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxInterpreter is the largest first line of a script that the kernel reads.
const maxInterpreter = 256

// isText reports whether a program begins as a text and not as a binary, which has zeros or the mark of one.
func isText(begins []byte) bool { return begins[0] != '\x7f' && bytes.IndexByte(begins, 0) < 0 }

// Startable returns an error if the kernel could not start an executable file: it is empty, a text without #!, or a
// script whose interpreter cannot be started. A file that may only be executed is not looked at.
func Startable(program string) error {
	file, err := os.Open(program)
	if errors.Is(err, os.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	line := make([]byte, maxInterpreter)
	n, err := io.ReadFull(file, line)
	if n == 0 {
		return fmt.Errorf("%s is empty", program)
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	script, is := bytes.CutPrefix(line[:n], []byte("#!"))
	switch {
	case !is && isText(line[:n]):
		return fmt.Errorf("%s has no #! line, which names its interpreter, such as #!/usr/bin/env python3", program)
	case !is:
		return nil
	}
	script, _, _ = bytes.Cut(script, []byte("\n"))
	words := bytes.Fields(script)
	if len(words) == 0 {
		return fmt.Errorf("%s begins with #! and names no interpreter", program)
	}
	interpreter := string(words[0])
	if !filepath.IsAbs(interpreter) { // its folder is that of the run
		return nil
	}
	if err := executable(interpreter); err != nil {
		return fmt.Errorf("the interpreter of %s: %w", program, err)
	}
	return nil
}
