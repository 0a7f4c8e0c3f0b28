package mixed

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var long = flag.Bool("long", false, "make five minutes of trouble for each pair of builds instead of 20 seconds")

// Processes of both builds share a bus and are replaced one by one, up and down, under faults: no promise is
// broken, AUDIT holds all that the log does, and nothing is decided twice. toolbus-lab chaos checks that, as the newer.
func TestBuildsOfTwoAges(t *testing.T) {
	older := build(t, source(t, before), "")
	for name, tag := range map[string]string{
		"a member more":  "formmember",
		"one form ahead": "formahead", // the older cannot read what it writes, and stands by
	} {
		t.Run(name, func(t *testing.T) { run(t, build(t, root, tag), older) })
	}
}

// before is de639544, the oldest build that may share a bus with this one.
const before = "de639544f91829ba58f6cd8f3e5808c8720e9280"

// With accounts and tokens, too, dispatchers of this build serve executors of that build, and the other way round.
func TestTokensOfTwoAges(t *testing.T) {
	run(t, build(t, root, ""), build(t, source(t, before), ""), "--identity")
}

// root is where the module is.
const root = "../.."

// source returns a folder with the source as of a commit.
func source(t *testing.T, commit string) string {
	t.Helper()
	if exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", commit).Run() != nil {
		t.Fatalf("this clone has not commit %s: `git fetch --unshallow` fetches it", commit)
	}
	archive, dir := filepath.Join(t.TempDir(), "source.tar"), t.TempDir()
	output(t, "git", "-C", root, "archive", "--output", archive, commit)
	output(t, "tar", "-x", "-f", archive, "-C", dir)
	return dir
}

// build builds the program from the source in dir, and returns where it is.
func build(t *testing.T, dir, tag string) string {
	t.Helper()
	bin := t.TempDir()
	programs := []string{"./cmd/toolbus", "./cmd/toolbus-supervisor"}
	if dir == root {
		programs = append(programs, "./cmd/toolbus-lab")
	}
	output(t, "go", append([]string{"-C", dir, "build", "-tags", tag, "-o", bin}, programs...)...)
	return filepath.Join(bin, "toolbus")
}

// run makes trouble, and fails unless every promise was kept.
func run(t *testing.T, newer, older string, more ...string) {
	t.Helper()
	lasts := 20 * time.Second
	if *long {
		lasts = 5 * time.Minute
	}
	args := []string{"chaos", "--old-binary", older, "--duration", lasts.String(), "--seed", "1"}
	output(t, newer+"-lab", append(args, more...)...)
}

// output runs a program and returns what it says; what it says in vain is in the test's log.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	cmd.Env = append(os.Environ(), "GOFLAGS=") // those of the test are not for what it builds
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, said.String())
	}
	return string(out)
}
