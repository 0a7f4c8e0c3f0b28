package release

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
)

const root = "../.."

var all = flag.Bool("all", false, "make the release of all platforms, and images if buildah is there")

// TestRelease makes a release of one commit in two folders: all files have the same bytes. The programs know their
// version and commit.
func TestRelease(t *testing.T) {
	t.Parallel()
	arches, args := []string{runtime.GOARCH}, []string{"--quick", "linux/" + runtime.GOARCH}
	if *all {
		arches, args = []string{"amd64", "arm64"}, nil
	}
	sums := make([]string, 2)
	dirs := []string{filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "elsewhere", "two")}
	commit(t, dirs[0])
	output(t, root, nil, "git", "clone", "--quiet", dirs[0], dirs[1])
	for i, dir := range dirs {
		sums[i] = output(t, dir, nil, ".ci/release", args...)
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds of a commit have the sums\n%s\nand\n%s", sums[0], sums[1])
	}
	made := filepath.Join(dirs[0], "bin/release")
	for _, arch := range arches {
		testArchive(t, made, arch, sums[0])
	}
	built := filepath.Join(made, nameFor(runtime.GOARCH))
	revision := output(t, dirs[0], nil, "git", "rev-parse", "HEAD")
	said := output(t, built, nil, "./toolbus", "version")
	if want := fmt.Sprintf("toolbus %s+%.12s\ncommit: %s", toolbus.Version, revision, revision); said != want {
		t.Errorf("a released program says %q, want %q", said, want)
	}
	t.Run("compose", func(t *testing.T) { testCompose(t, built) })
}

// nameFor returns the name of the files for a platform, without what differs among them.
func nameFor(arch string) string { return "toolbus-" + toolbus.Version + "-linux-" + arch }

// commit copies the files of the repository to dir, and commits them at a fixed time.
func commit(t *testing.T, dir string) {
	t.Helper()
	for _, name := range sources(t) {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, read(t, filepath.Join(root, name)), info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	const at = "2026-11-29T12:00:00Z"
	env := []string{
		"GIT_AUTHOR_DATE=" + at, "GIT_COMMITTER_DATE=" + at, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
	}
	output(t, dir, env, "git", "init", "--quiet")
	output(t, dir, env, "git", "add", "--force", ".")
	output(t, dir, env, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "-m", "Build")
}

// sources returns the names of the files in the repository that belong to it.
func sources(t *testing.T) (names []string) {
	t.Helper()
	list := output(t, root, nil, "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others",
		"--exclude-standard")
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		if _, err := os.Stat(filepath.Join(root, name)); !errors.Is(err, os.ErrNotExist) { // removed, and not yet committed
			names = append(names, name)
		}
	}
	return names
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// output runs a program, with further variables, and returns what it prints without the last newline.
func output(t *testing.T, dir string, env []string, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	return strings.TrimSuffix(string(out), "\n")
}
