package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/subjects"
)

//go:embed templates
var templates embed.FS

// Language is the language of a program.
type Language string

// Values of [Language].
const (
	Go     Language = "go"
	Python Language = "python"
	Node   Language = "node"
	Shell  Language = "shell"
)

// Languages returns all languages.
func Languages() []Language { return []Language{Go, Python, Node, Shell} }

// Class is an effect class: the value of determinism in the manifest.
type Class string

// Values of [Class].
const (
	Pure          Class = "pure"
	Idempotent    Class = "idempotent"
	SideEffectful Class = "side_effectful"
)

// Classes returns all classes.
func Classes() []Class { return []Class{Pure, Idempotent, SideEffectful} }

// Spec says which tool is written.
type Spec struct {
	ID       string
	Language Language
	Class    Class
	Module   string // version of the module of Toolbus that a go.mod requires; "" leaves it to the go command
}

// idPattern is stricter than that of manifests: a part of an id that begins with a point or a hyphen is no good name of
// a folder.
var idPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(::[a-z0-9][a-z0-9._-]*)*$`)

const maxID = 128

// Check returns an error unless there can be such a tool.
func (s Spec) Check() error {
	if !idPattern.MatchString(s.ID) || len(s.ID) > maxID {
		return fmt.Errorf("%.140q is not a tool id: use lower-case letters, digits and . _ -, optionally namespaced as in "+
			"local::fs.write, at most %d bytes", s.ID, maxID)
	}
	if !slices.Contains(Languages(), s.Language) {
		return fmt.Errorf("%.40q is not a language: use one of %s", s.Language, listed(Languages()))
	}
	if !slices.Contains(Classes(), s.Class) {
		return fmt.Errorf("%.40q is not an effect class: use one of %s", s.Class, listed(Classes()))
	}
	return nil
}

// listed returns values as text.
func listed[T ~string](all []T) string { return strings.Trim(fmt.Sprint(all), "[]") }

// Needs returns the programs that run the tool and its test.
func (s Spec) Needs() []string {
	switch s.Language {
	case Python:
		return []string{"python3"}
	case Node:
		return []string{"node"}
	case Shell:
		return []string{"sh", "jq"}
	}
	return []string{"go"}
}

// File is a file of a new tool.
type File struct{ Name, Text string }

// Files returns the files of a tool that passes [Spec.Check].
func (s Spec) Files() (files []File, err error) {
	folders := []string{"templates", path.Join("templates", string(s.Language))}
	if s.Class != Pure {
		folders = append(folders, path.Join("templates", "effect", string(s.Language)))
	}
	for _, dir := range folders {
		entries, err := templates.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() {
				continue
			}
			text, err := templates.ReadFile(path.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			name := strings.TrimSuffix(e.Name(), ".tmpl")
			files = slices.DeleteFunc(files, func(f File) bool { return f.Name == name }) // of a folder before
			files = append(files, File{name, s.filled().Replace(string(text))})
		}
	}
	return files, nil
}

// filled replaces the placeholders of templates.
func (s Spec) filled() *strings.Replacer {
	lookup, timeout := "", "5000"
	if s.Class == SideEffectful {
		lookup = "\n  lookup: true # asked if the executor or the machine dies in a call, but not if the program itself fails"
		timeout = "20000 # a lookup is asked before this ends: after a crash, and a lease of 5 s"
	}
	require := ""
	if s.Module != "" {
		require = "\n\nrequire github.com/seed-018f16cc/toolbus " + s.Module
	}
	return strings.NewReplacer("REQUIRE", require, "TOOL_ID", s.ID, "FOLDER", folderOf(s.ID), "ENDPOINT", s.endpoint(),
		"CLASS", string(s.Class), "LOOKUP", lookup, "TIMEOUT", timeout)
}

// endpoint returns the lines of the manifest that name the program, and the folder of its effects. An argument that
// begins with ./ is a file of the build digest.
func (s Spec) endpoint() string {
	const digest = " # ./ makes the file a part of the build digest"
	lines := "endpoint:"
	switch s.Language {
	case Python:
		lines += "\n  command: [python3, ./main.py]" + digest
	case Node:
		lines += "\n  command: [node, ./main.mjs]" + digest
	case Shell:
		lines += "\n  command: [sh, ./main.sh]" + digest
	default:
		lines = "# Without a command, the program is ./bin/" + s.ID + ". It is part of the build digest."
		if s.Class != Pure {
			lines += "\nendpoint:"
		}
	}
	if s.Class != Pure {
		lines += "\n  env:\n    EFFECTS: ../../effects/" + folderOf(s.ID) +
			" # stands for the service that the tool changes, and is in no folder of tools"
	}
	return lines
}

// folderOf returns the name of the folder of a tool: its id, if module archives and build tools take that.
func folderOf(id string) string {
	if strings.Contains(id, ":") {
		return subjects.Token(id)
	}
	return id
}

// Tool is a tool that was written.
type Tool struct {
	ID       string   `json:"tool_id"`
	Language Language `json:"language"`
	Class    Class    `json:"determinism"`
	Folder   string   `json:"folder"`
	Files    []string `json:"files"` // below the folder
	Test     string   `json:"test"`  // command that builds and tests the tool, in the folder
}

// Write writes a new tool that passes [Spec.Check] into a folder of tools. If the folder of the tool exists, the error
// is [fs.ErrExist].
func Write(tools string, s Spec) (Tool, error) {
	files, err := s.Files()
	if err != nil {
		return Tool{}, err
	}
	t := Tool{
		ID: s.ID, Language: s.Language, Class: s.Class, Folder: filepath.Join(tools, folderOf(s.ID)),
		Test: testOf(s.ID, s.Language),
	}
	if module, err := inModule(tools); err != nil {
		return Tool{}, err
	} else if module {
		files = slices.DeleteFunc(files, func(f File) bool { return f.Name == "go.mod" })
	}
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return Tool{}, err
	}
	if err := os.Mkdir(t.Folder, 0o755); err != nil {
		return Tool{}, err
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(t.Folder, f.Name), []byte(f.Text), 0o644); err != nil {
			return Tool{}, errors.Join(err, os.RemoveAll(t.Folder))
		}
		t.Files = append(t.Files, f.Name)
	}
	return t, nil
}

// inModule reports whether a folder lies in a Go module, so that a tool in it needs no module of its own.
func inModule(dir string) (bool, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false, err
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		switch parent := filepath.Dir(dir); {
		case err == nil:
			return true, nil
		case !errors.Is(err, fs.ErrNotExist):
			return false, err
		case parent == dir:
			return false, nil
		default:
			dir = parent
		}
	}
}

// testOf returns the shell command that tests a tool, in its folder. A program that must be built is built, too.
func testOf(id string, l Language) string {
	switch l {
	case Python:
		return "python3 -m unittest"
	case Node:
		return "node --test"
	case Shell:
		return "sh test.sh"
	}
	return "go mod tidy && go test . && go build -o bin/" + id + " ."
}
