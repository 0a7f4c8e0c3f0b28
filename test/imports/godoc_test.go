package imports_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGodoc compares what `go doc -all` prints of each public package with a file, so that each change of the API and
// of its documentation shows in a diff. After a change, run
//
//	go test ./test/imports -run TestGodoc -update
//
// and read the difference as somebody who has to change code for it.
func TestGodoc(t *testing.T) {
	t.Setenv("GOOS", "linux") // the files of other systems have other comments
	var want []string
	for _, path := range public(t) {
		name := strings.ReplaceAll(path, "/", "_")
		if path == "." {
			name = "toolbus"
		}
		file := filepath.Join("testdata/godoc", name+".txt")
		want = append(want, file)
		got := goCommand(t, "doc", "-all", "./"+path)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(file)
		if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); diff != "" {
			t.Errorf("go doc of %s is not %s (%v); -update writes it (-file +now):\n%.4000s", path, file, err, diff)
		}
	}
	files, err := filepath.Glob("testdata/godoc/*")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if !slices.Equal(files, want) {
		t.Errorf("testdata/godoc has %q, want one file for each public package: %q", files, want)
	}
}
