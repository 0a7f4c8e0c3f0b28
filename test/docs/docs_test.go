package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// files returns the names of all files with one of the extensions, but those of git, of builds
// and of test data.
func files(t *testing.T, extensions ...string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "state", "testdata"}, d.Name()):
			return fs.SkipDir
		case !d.IsDir() && slices.Contains(extensions, filepath.Ext(name)):
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?s)```.*?```")
)

func TestLinks(t *testing.T) {
	pages := files(t, ".md")
	if len(pages) < 10 {
		t.Fatalf("found only %d pages", len(pages))
	}
	for _, page := range pages {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target, anchor, _ := strings.Cut(m[1], "#")
			if target == "" {
				target = filepath.Base(page)
			}
			target = filepath.Join(filepath.Dir(page), target)
			info, err := os.Stat(filepath.Join(root, target))
			if err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, m[1])
				continue
			}
			if anchor != "" && !info.IsDir() && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: %s has no heading #%s", page, target, anchor)
			}
		}
	}
}

// TestReadingOrder sees that each file and folder of the reading order exists.
func TestReadingOrder(t *testing.T) {
	found := 0
	for _, m := range quoted.FindAllStringSubmatch(read(t, "docs/reading.md"), -1) {
		if strings.ContainsAny(m[1], "/.") {
			found++
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("docs/reading.md names %s: %v", m[1], err)
			}
		}
	}
	if found < 20 {
		t.Errorf("docs/reading.md names %d files", found)
	}
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(page string) (list []string) {
	drop := regexp.MustCompile(`[^a-z0-9 _-]`)
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		list = append(list, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return list
}

// TestNothingIsLeftToDo keeps notes to oneself out of the tree.
func TestNothingIsLeftToDo(t *testing.T) {
	note := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX|HA` + `CK)\b`)
	for _, name := range files(t, ".go", ".md", ".yaml", ".json", ".sh", ".html", ".conf", ".mod") {
		for i, line := range strings.Split(read(t, name), "\n") {
			if note.MatchString(line) {
				t.Errorf("%s:%d: %s", name, i+1, strings.TrimSpace(line))
			}
		}
	}
}
