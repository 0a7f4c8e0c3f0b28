package rootdir_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/tools/internal/rootdir"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"a": "a", ".": ".", "a/": "a", "./a//b/.": "a/b", "a/../b": "b", "...": "...", "a b/ü": "a b/ü",
		strings.Repeat("n", 255): strings.Repeat("n", 255),
	} {
		if got, err := rootdir.Clean(path); got != want || err != nil {
			t.Errorf("%q gives %q, %v", path, got, err)
		}
	}
	for path, reason := range map[string]string{
		"": "parent", "..": "parent", "../a": "parent", "a/../../b": "parent", "/": "absolute", "/a": "absolute",
		"a\x00":                  "nul",
		strings.Repeat("n", 256): "too_long", strings.Repeat("n/", 513): "too_long",
	} {
		_, err := rootdir.Clean(path)
		var outside *rootdir.Outside
		if !errors.As(err, &outside) || outside.Reason != reason || outside.Error() == "" {
			t.Errorf("%q: error is %v", path, err)
		}
	}
}

// TestEscape pins what the package relies on: which errors of os.Root come from the system.
func TestEscape(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"out": "..", "absolute": dir, "loop": "loop", "dangling": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for path, escapes := range map[string]bool{
		"out/x": true, "out": true, "absolute/file": true, "../x": true,
		"loop/x": false, "dangling/x": false, "missing": false, "file/x": false, "file": false,
	} {
		file, err := root.Open(path)
		if err == nil {
			file.Close()
		}
		if got := rootdir.Escape(err) != nil; got != escapes {
			t.Errorf("%q: escape is %v, error is %v", path, got, err)
		}
	}
}

// FuzzClean holds that a clean path stays the same and never has a parent element.
func FuzzClean(f *testing.F) {
	for _, seed := range []string{"a", "a/../b", "../a", "/a", "a//b/", ".", "..a/b.."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		clean, err := rootdir.Clean(path)
		if err != nil {
			return
		}
		again, err := rootdir.Clean(clean)
		if again != clean || err != nil || strings.HasPrefix(filepath.Join("/root", clean), "/root") == false {
			t.Errorf("%q gives %q, then %q, %v", path, clean, again, err)
		}
	})
}
