package docs_test

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every package says what it is: in doc.go, or where it is a command or has one file, in that.
func TestPackagesSayWhatTheyAre(t *testing.T) {
	packages := map[string][]string{}
	for _, name := range files(t, ".go") {
		if !strings.HasSuffix(name, "_test.go") {
			packages[filepath.Dir(name)] = append(packages[filepath.Dir(name)], filepath.Base(name))
		}
	}
	for folder, names := range packages {
		said := "doc.go"
		switch {
		case len(names) == 1:
			said = names[0]
		case strings.HasPrefix(folder, "cmd/"):
			said = "main.go"
		}
		name := filepath.Join(folder, said)
		mode := parser.PackageClauseOnly | parser.ParseComments
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, mode)
		if err != nil || f.Doc == nil {
			t.Errorf("%s does not say what the package is (%v)", name, err)
		}
	}
}

// Each file that a package comment names exists in the folder of the package, or below the root.
func TestFilesOfPackageComments(t *testing.T) {
	name := regexp.MustCompile(`\b[\w/]+\.go\b`)
	for _, doc := range files(t, ".go") {
		if path.Base(doc) != "doc.go" {
			continue
		}
		for _, file := range name.FindAllString(read(t, doc), -1) {
			_, beside := os.Stat(filepath.Join(root, path.Dir(doc), file))
			_, below := os.Stat(filepath.Join(root, file))
			if beside != nil && below != nil {
				t.Errorf("%s names %s, which does not exist", doc, file)
			}
		}
	}
}
