package life_test

import (
	"bufio"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/seed-018f16cc/toolbus/"
	page   = root + "/docs/life-of-a-call.md"

	maxFiles = 90
)

// TestFilesOfOneCall makes the call of docs/life-of-a-call.md with coverage. Each product file that it runs is in a
// table of the page, or belongs to a package that the page names as support. Each file of the tables ran.
func TestFilesOfOneCall(t *testing.T) {
	listed, support, beside := documented(t)
	if len(listed) > maxFiles {
		t.Errorf("the call runs %d files, at most %d: two files on one subject are one file", len(listed), maxFiles)
	}
	ran := covered(t)
	for _, name := range slices.Sorted(maps.Keys(ran)) {
		if !listed[name] && !support[path.Dir(name)] && !beside[name] && !beside[path.Dir(name)] {
			t.Errorf("%s runs in the call: add it to a table of docs/life-of-a-call.md, or name its package there", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !ran[name] {
			t.Errorf("%s is in a table of docs/life-of-a-call.md, and the call does not run it", name)
		}
	}
	for folder := range support {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(ran)), func(name string) bool { return path.Dir(name) == folder }) {
			t.Errorf("%s is a support package in docs/life-of-a-call.md, and the call does not run it", folder)
		}
	}
}

// documented returns the files of the two tables, and below them the support packages and what may run at the same
// time.
func documented(t *testing.T) (listed, support, beside map[string]bool) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## One call as data\n")
	section, _, _ = strings.Cut(section, "\n## ")
	tables, below, _ := strings.Cut(section, "\n\nSupport packages")
	below, later, _ := strings.Cut(below, "At the same time may run")
	listed, support, beside = map[string]bool{}, map[string]bool{}, map[string]bool{}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
	for _, m := range row.FindAllStringSubmatch(tables, -1) {
		listed[m[1]] = true
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	for _, m := range quoted.FindAllStringSubmatch(below, -1) {
		support[m[1]] = true
	}
	for _, m := range quoted.FindAllStringSubmatch(later, -1) {
		beside[m[1]] = true
	}
	if len(listed) < 40 || len(support) == 0 {
		t.Fatalf("%d files and %d support packages in %s", len(listed), len(support), page)
	}
	return listed, support, beside
}

// covered returns the files of this module that one call runs.
func covered(t *testing.T) map[string]bool {
	t.Helper()
	dir := t.TempDir()
	tools, data, probe := filepath.Join(dir, "tools"), filepath.Join(dir, "data"), filepath.Join(dir, "onecall")
	supervisor, profile := filepath.Join(dir, "toolbus-supervisor"), filepath.Join(dir, "profile")
	const tool = "transcript_2eclean"
	if err := os.CopyFS(filepath.Join(tools, tool), os.DirFS(filepath.Join(root, "tools", tool))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "go", "build", "-o", filepath.Join(tools, tool, "transcript-clean"), "./tools/"+tool)
	run(t, "go", "build", "-o", supervisor, "./cmd/toolbus-supervisor")
	run(t, "go", "build", "-cover", "-covermode=atomic", "-coverpkg="+module+"...", "-o", probe, "./test/life/onecall")
	run(t, probe, tools, supervisor, filepath.Join(dir, "state"), data)
	run(t, "go", "tool", "covdata", "textfmt", "-i="+data, "-o="+profile)
	return counted(t, profile)
}

// counted returns the files of this module of which a statement ran.
func counted(t *testing.T, profile string) map[string]bool {
	t.Helper()
	f, err := os.Open(profile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ran := map[string]bool{}
	for s := bufio.NewScanner(f); s.Scan(); {
		at, rest, _ := strings.Cut(s.Text(), ":")
		name, ours := strings.CutPrefix(at, module)
		if ours && !strings.HasSuffix(rest, " 0") && !strings.HasPrefix(name, "test/") {
			ran[name] = true
		}
	}
	return ran
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+filepath.Join(t.TempDir()))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}
