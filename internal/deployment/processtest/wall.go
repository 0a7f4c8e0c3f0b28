package processtest

import (
	_ "embed" // the part of package time in which a test sets the clock
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Wall is the wall clock of processes whose programs [BuildWithWall] has built.
type Wall struct {
	t    testing.TB
	path string
}

// NewWall returns a clock that shows the real time.
func NewWall(t testing.TB) Wall {
	t.Helper()
	w := Wall{t, filepath.Join(t.TempDir(), "wall")}
	if err := os.WriteFile(w.path, make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// Env is the environment of a process with this clock.
func (w Wall) Env() []string { return append(os.Environ(), "TOOLBUS_TEST_CLOCK="+w.path) }

// Set sets the clock that much after the real time.
func (w Wall) Set(by time.Duration) {
	w.t.Helper()
	f, err := os.OpenFile(w.path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(by)), 0)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

//go:embed step.go.txt
var step []byte

// BuildWithWall builds a package with a package time in which the wall clock can be set, and returns the path of its
// program. Tests with a [Wall] are no other than those of a machine whose clock was set: timers and durations go by the
// monotonic clock, which stays as it is.
func BuildWithWall(t testing.TB, root, pkg string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(strings.TrimSpace(Output(t, "go", "env", "GOROOT")), "src", "time")
	original := filepath.Join(source, "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	const call = "sec, nsec, mono := runtimeNow()"
	if n := strings.Count(string(text), call); n != 1 {
		t.Fatalf("%d calls of runtimeNow in %s, want 1: this version of Go needs another overlay", n, original)
	}
	changed := strings.Replace(string(text), call, "sec, nsec, mono := steppedNow()", 1)
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	overlay := file("overlay.json", fmt.Appendf(nil, `{"Replace": {%q: %q, %q: %q}}`, original,
		file("time.go", []byte(changed)), filepath.Join(source, "step.go"), file("step.go", step)))
	program := filepath.Join(dir, "program")
	Output(t, "go", "-C", root, "build", "-overlay", overlay, "-o", program, pkg)
	return program
}
