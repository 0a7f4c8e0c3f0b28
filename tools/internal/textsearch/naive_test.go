package textsearch

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAgainstNaiveSearch searches real sources and compares with a search that is too simple to be
// wrong: the lines of every file, one after the other.
func TestAgainstNaiveSearch(t *testing.T) {
	t.Parallel()
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(strings.TrimSpace(string(goroot)), "src", "net")
	for _, test := range []struct {
		in Input
		re string
	}{
		{Input{Pattern: "Retry-After", Case: "sensitive"}, `Retry-After`},
		{Input{Pattern: `func \w+Timeout\(`}, `func \w+Timeout\(`},
		{Input{Pattern: "étoile|[一-龥]+", Case: "sensitive"}, "étoile|[一-龥]+"},
		{Input{Pattern: "return nil, err", Case: "insensitive", MaxMatches: 10_000}, `(?i)return nil, err`},
	} {
		t.Run(test.in.Pattern, func(t *testing.T) {
			t.Parallel()
			test.in.Glob = []string{"*.go"}
			var got []place
			matches, _ := searchTree(t, root, test.in)
			for _, m := range matches {
				got = append(got, place{m.Path, m.Line})
			}
			if diff := cmp.Diff(naive(t, root, test.re), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

type place struct {
	Path string
	Line int
}

func naive(t *testing.T, root, pattern string) []place {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var found []place
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		data, err := os.ReadFile(filepath.Join(root, path))
		number := 0
		for line := range bytes.Lines(data) {
			number++
			if re.Match(bytes.TrimRight(line, "\r\n")) {
				found = append(found, place{path, number})
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
