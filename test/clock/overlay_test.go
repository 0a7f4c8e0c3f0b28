package clock

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// buildRole builds the command role with a package time in which the wall clock can be set, and returns its path. The
// tests with a clock of their own are no other than those of a machine that was set: timers and durations go by the
// monotonic clock, which stays as it is.
func buildRole(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root := strings.TrimSpace(output(t, "go", "env", "GOROOT"))
	original := filepath.Join(root, "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	const call = "sec, nsec, mono := runtimeNow()"
	if n := strings.Count(string(text), call); n != 1 {
		t.Fatalf("%d calls of runtimeNow in %s, want 1: this version of Go needs another overlay", n, original)
	}
	step, err := os.ReadFile(filepath.Join("testdata", "step.go.txt"))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), call, "sec, nsec, mono := steppedNow()", 1)
	replace := map[string]string{
		original: write(t, dir, "time.go", []byte(changed)),
		filepath.Join(root, "src", "time", "step.go"): write(t, dir, "step.go", step),
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	role := filepath.Join(dir, "role")
	output(t, "go", "build", "-overlay", write(t, dir, "overlay.json", overlay), "-o", role, "./role")
	return role
}

func write(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return string(out)
}
