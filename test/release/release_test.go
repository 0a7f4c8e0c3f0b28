package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
)

const root = "../.."

// TestRelease makes a release of one commit in two folders: all files have the same bytes. One archive has static
// programs, which know their version and commit.
func TestRelease(t *testing.T) {
	sums := make([]string, 2)
	dirs := []string{filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "elsewhere", "two")}
	for i, dir := range dirs {
		commit(t, dir)
		sums[i] = output(t, dir, nil, ".ci/release", "linux/"+runtime.GOARCH)
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds of a commit have the sums\n%s\nand\n%s", sums[0], sums[1])
	}
	name := "toolbus-" + toolbus.Version + "-linux-" + runtime.GOARCH
	for _, file := range []string{name + ".tar.gz", name + ".cdx.json"} {
		sum := fmt.Sprintf("%x  %s", sha256.Sum256(read(t, filepath.Join(dirs[0], "bin/release", file))), file)
		if !strings.Contains(sums[0], sum) {
			t.Errorf("SHA256SUMS does not say %s", sum)
		}
	}
	files := unpack(t, filepath.Join(dirs[0], "bin/release", name+".tar.gz"))
	want := []string{
		"LICENSE", "README.md", "dispatcher", "executor", "nats-server", "toolbus", "toolbus-lab", "toolbus-supervisor",
	}
	if !slices.Equal(files, want) {
		t.Errorf("the archive has %q, want %q", files, want)
	}
	built := filepath.Join(dirs[0], "bin/release", name)
	for _, program := range want[2:] {
		wantStatic(t, filepath.Join(built, program))
	}
	bom := string(read(t, filepath.Join(dirs[0], "bin/release", name+".cdx.json")))
	if !strings.Contains(bom, `"pkg:golang/github.com/nats-io/nats-server/v2@`) || !strings.Contains(bom, "CycloneDX") {
		t.Errorf("the document of the modules is %.400s", bom)
	}
	revision := output(t, dirs[0], nil, "git", "rev-parse", "HEAD")
	said := output(t, built, nil, "./toolbus", "version")
	if want := fmt.Sprintf("toolbus %s+%.12s\ncommit: %s", toolbus.Version, revision, revision); said != want {
		t.Errorf("a released program says %q, want %q", said, want)
	}
	t.Run("compose", func(t *testing.T) { testCompose(t, built) })
}

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

// unpack returns the sorted names of the files in an archive, without their folder.
func unpack(t *testing.T, archive string) (names []string) {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(read(t, archive)))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(unzipped); ; {
		h, err := files.Next()
		if err == io.EOF {
			slices.Sort(names)
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			_, name, _ := strings.Cut(h.Name, "/")
			names = append(names, name)
		}
	}
}

// wantStatic demands a program that needs no library and no loader.
func wantStatic(t *testing.T, file string) {
	t.Helper()
	program, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s is not static", filepath.Base(file))
		}
	}
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
