package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSubjects runs .ci/subjects on histories of its own: whole, shallow, and none.
func TestSubjects(t *testing.T) {
	const before, after = "2026-11-24T12:00:00Z", "2026-11-26T12:00:00Z"
	long := "Add " + strings.Repeat("x", 69)
	for _, c := range []struct {
		subject, date string
		ok            bool
	}{
		{"Answer joined callers from the log", after, true},
		{strings.TrimSuffix(long, "x"), after, true},
		{"Ask " + strings.Repeat("ä", 68), after, true},
		{`Revert "the whole of a subject that was too long before it was put between these two quotes"`, after, true},
		{"The log answers joined callers", before, true},
		{"The log answers joined callers", after, false},
		{"Adds a test", after, false},
		{"answer joined callers", after, false},
		{"Answer joined callers.", after, false},
		{"Answer joined callers; forget others", after, false},
		{long, after, false},
	} {
		repository := t.TempDir()
		subjectsIn(t, repository)
		gitIn(t, repository, before, "init", "-q", ".")
		gitIn(t, repository, c.date, "commit", "-q", "--allow-empty", "-m", c.subject)
		gitIn(t, repository, after, "commit", "-q", "--allow-empty", "-m", "Check the newest commit")
		if out, err := subjectsOf(t, repository); (err == nil) != c.ok || !c.ok && !strings.Contains(out, c.subject) {
			t.Errorf("%q: %v\n%s", c.subject, err, out)
		}
		shallow := filepath.Join(t.TempDir(), "shallow")
		gitIn(t, repository, after, "clone", "-q", "--depth", "1", "file://"+repository, shallow)
		subjectsIn(t, shallow)
		if out, err := subjectsOf(t, shallow); err != nil {
			t.Errorf("%q, shallow: %v\n%s", c.subject, err, out)
		}
	}
	none := t.TempDir()
	subjectsIn(t, none)
	if out, err := subjectsOf(t, none); err != nil || !strings.Contains(out, "no history") {
		t.Errorf("without a history: %v\n%s", err, out)
	}
}

// subjectsIn copies the script into a folder.
func subjectsIn(t *testing.T, dir string) {
	t.Helper()
	script := filepath.Join(dir, ".ci", "subjects")
	if err := os.MkdirAll(filepath.Dir(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, []byte(read(t, ".ci/subjects")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func subjectsOf(t *testing.T, dir string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, ".ci", "subjects"))
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func gitIn(t *testing.T, dir, date string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE="+date, "GIT_AUTHOR_DATE="+date,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}
