package supervisor_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// What the kernel could not start is an error: an empty file, a text without #!, and a script without its interpreter.
func TestStartable(t *testing.T) {
	for text, starts := range map[string]bool{
		"#!/bin/sh\n": true, "#! /bin/sh -e": true, "\x7fELF": true, "#!./relative\n": true, "MZ\x90\x00": true,
		"import sys\n": false,
		"":             false, "#!\n": false, "#!/nonexistent/python\n": false, "#!/etc/passwd\n": false,
	} {
		program := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := supervisor.Startable(program); (err == nil) != starts {
			t.Errorf("%q: %v", text, err)
		}
	}
}
