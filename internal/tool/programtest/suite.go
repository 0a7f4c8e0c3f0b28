package programtest

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/seed-018f16cc/toolbus/program"
)

var update = flag.Bool("update", false, "rewrite the golden answers; review the difference")

// Suite tests a tool against its contract. It reads the tool.yaml, the schemas and testdata/contract/*.txtar of the
// test's folder.
//
// A golden case has the sections request.json, a Call without the members that do not matter, and response.ndjson, the
// exact answer. Sections named root/… are files that exist before the call. If there are sections named after/…, they
// are exactly the files that exist after the call.
type Suite struct {
	// Tool returns the tool with its files in root, a folder that contains only the case's files.
	Tool func(t *testing.T, root string) program.Tool
	// Replace maps placeholders in requests and answers to their values.
	Replace map[string]string
	// Invalid holds, by function, inputs that the request schema must refuse.
	Invalid map[string][]string
	// Elsewhere maps each declared error without a golden case to the reason.
	Elsewhere map[string]string
}

// Run runs the suite.
func (s Suite) Run(t *testing.T) {
	m := loadManifest(t)
	t.Run("invalid", func(t *testing.T) { s.runInvalid(t, m) })
	t.Run("example", func(t *testing.T) { s.runExamples(t, m) })
	names, err := filepath.Glob("testdata/contract/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("golden cases: %d, %v", len(names), err)
	}
	seen := map[string]bool{}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			seen[s.runCase(t, m, name)] = true
		})
	}
	s.checkErrors(t, m, seen)
}

func (s Suite) runInvalid(t *testing.T, m manifest) {
	for name, fn := range m.Functions {
		if len(s.Invalid[name]) == 0 {
			t.Errorf("no invalid input for %s", name)
		}
		for _, input := range s.Invalid[name] {
			if err := fn.request.check([]byte(input)); err == nil {
				t.Errorf("%s accepts %s", name, input)
			}
		}
	}
}

func (s Suite) runExamples(t *testing.T, m manifest) {
	for name, fn := range m.Functions {
		for _, example := range fn.Examples {
			if err := fn.request.check(example.input); err != nil {
				t.Errorf("%s: input: %v", example.Name, err)
			}
			if example.output != nil || example.Error != "" {
				example.compare(t, Run(t, s.Tool(t, t.TempDir()), NewCall(t, name, example.input)))
			}
		}
	}
}

// compare compares the answer to the input of an example with its output or error.
func (e example) compare(t *testing.T, answer Answer) {
	t.Helper()
	if e.Error != "" {
		if last := answer.Terminal(); last.Error == nil || last.Error.Code != e.Error {
			t.Errorf("%s: %s, want the error %s", e.Name, answer.Raw, e.Error)
		}
		return
	}
	var want any
	if err := json.Unmarshal(e.output, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, Decode[any](t, answer)); diff != "" {
		t.Errorf("%s: %s", e.Name, diff)
	}
}

// runCase runs one golden case, and returns the code of its error, or "".
func (s Suite) runCase(t *testing.T, m manifest, name string) string {
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	sections := unpack(t, archive, root)
	replace := maps.Clone(s.Replace)
	if replace == nil {
		replace = map[string]string{}
	}
	replace["{{root}}"] = root
	call := NewCall(t, "", jsontext.Value("{}"))
	if err := json.Unmarshal([]byte(expand(sections["request.json"], replace)), &call); err != nil {
		t.Fatal(err)
	}
	answer := Run(t, s.Tool(t, root), call)
	got := collapse(string(answer.Raw), replace)
	if *update {
		rewrite(t, archive, name, got)
	} else if diff := cmp.Diff(sections["response.ndjson"], got); diff != "" {
		t.Errorf("answer differs (-want +got):\n%s", diff)
	}
	checkFiles(t, sections, root)
	return m.check(t, call, answer)
}

// unpack writes the files named root/… to root, and returns all other sections by name.
func unpack(t *testing.T, archive *txtar.Archive, root string) map[string]string {
	t.Helper()
	sections := map[string]string{}
	for _, file := range archive.Files {
		path, found := strings.CutPrefix(file.Name, "root/")
		if !found {
			sections[file.Name] = string(file.Data)
			continue
		}
		path = filepath.Join(root, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, file.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return sections
}

// checkFiles compares the files in root with the sections named after/…, if there are any.
func checkFiles(t *testing.T, sections map[string]string, root string) {
	t.Helper()
	want := map[string]string{}
	for name, data := range sections {
		if path, found := strings.CutPrefix(name, "after/"); found {
			want[path] = data
		}
	}
	if len(want) == 0 {
		return
	}
	got := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(root, path)
		got[filepath.ToSlash(relative)] = ReadFile(t, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files differ (-want +got):\n%s", diff)
	}
}

// checkErrors fails the test unless every declared error has either a golden case or an entry in Elsewhere.
func (s Suite) checkErrors(t *testing.T, m manifest, seen map[string]bool) {
	for _, e := range m.Errors {
		if reason := s.Elsewhere[e.Code]; seen[e.Code] == (reason != "") {
			t.Errorf("error %s: shown by a golden case is %v, elsewhere is %q", e.Code, seen[e.Code], reason)
		}
	}
}

func rewrite(t *testing.T, archive *txtar.Archive, name, answer string) {
	t.Helper()
	at := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "response.ndjson" })
	if at < 0 {
		at = len(archive.Files)
		archive.Files = append(archive.Files, txtar.File{Name: "response.ndjson"})
	}
	archive.Files[at].Data = []byte(answer)
	if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

func expand(text string, replace map[string]string) string {
	for placeholder, value := range replace {
		text = strings.ReplaceAll(text, placeholder, value)
	}
	return text
}

func collapse(text string, replace map[string]string) string {
	for placeholder, value := range replace {
		text = strings.ReplaceAll(text, value, placeholder)
	}
	return text
}

// Golden compares got with the golden file name. With -update it rewrites the file.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(ReadFile(t, name), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}
