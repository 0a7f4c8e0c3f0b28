package imports_test

import (
	"flag"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	publicNames = "testdata/names.txt" // the ceiling of TestPublicNames
	// maxPublic: no ceiling is higher. 270, one for checks of calls (decision record 48), and two of admin for policies
	// (decision record 51). 20 are of package caller, which the root has as aliases (decision record 55).
	maxPublic = 293
)

var (
	lower  = flag.Bool("lower", false, "write the ceiling of TestPublicNames that has fallen")
	update = flag.Bool("update", false, "write testdata/godoc of TestGodoc")
)

// public returns the packages that other modules may import: not the tools, which are programs.
func public(t *testing.T) (paths []string) {
	t.Helper()
	for _, p := range packages(t) {
		if product(p.path()) && !strings.HasPrefix(p.path(), "internal/") {
			paths = append(paths, p.path())
		}
	}
	return paths
}

// TestPublicNames counts the names that the public packages export. envelope and subjects are the wire, and do not
// count: each error code and each kind of subject is a name. The count may not rise above its ceiling. When it falls,
// the ceiling falls with it.
func TestPublicNames(t *testing.T) {
	count := 0
	for _, path := range public(t) {
		n := namesOf(t, path)
		t.Logf("%3d %s", n, path)
		if path != "envelope" && path != "subjects" {
			count += n
		}
	}
	text, err := os.ReadFile(publicNames)
	if err != nil {
		t.Fatal(err)
	}
	ceiling, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || ceiling > maxPublic {
		t.Fatalf("%s is not a number up to %d: %q", publicNames, maxPublic, text)
	}
	switch {
	case count < ceiling && *lower:
		if err := os.WriteFile(publicNames, []byte(strconv.Itoa(count)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	case count < ceiling:
		t.Errorf("%d public names, %d are allowed: lower the ceiling with "+
			"go test ./test/imports -run TestPublicNames -args -lower", count, ceiling)
	case count > ceiling:
		t.Errorf("%d public names, at most %d are allowed: remove one, or make it internal. -v prints the packages",
			count, ceiling)
	}
}

// namesOf counts what the files of a package export, for all systems, without tests.
func namesOf(t *testing.T, path string) (n int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", path, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		n += exportedNames(file)
	}
	return n
}
