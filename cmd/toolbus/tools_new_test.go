package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func TestToolsNew(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's mine")
	s := shell{t: t, environ: []string{"PATH=" + programs(t, "sh", "jq", "python3")}}
	code, out, errors := s.do("tools", "new", "greet", "--lang", "shell", "--tools", dir)
	for _, says := range []string{
		"wrote " + filepath.Join(dir, "greet", "main.sh") + "\n", "\nnext:\n",
		`  (cd '` + strings.ReplaceAll(dir, "'", `'\''`) + `/greet' && sh test.sh)` + "\n", "\n  toolbus tools lint '",
		"\n  toolbus dev --tools '", "\n  toolbus call greet --input '{\"name\":\"Ada\"}'\n",
	} {
		if !strings.Contains(out, says) {
			t.Errorf("it does not say %q", says)
		}
	}
	if code != 0 || errors != "" {
		t.Errorf("exit %d, %s%s", code, out, errors)
	}
	if code, out, _ := s.do("tools", "lint", dir); code != 0 || out != "1 tool in "+dir+", 0 problems, 0 warnings\n" {
		t.Errorf("lint: exit %d, %s", code, out)
	}
	code, out, _ = s.do("tools", "show", "greet", "--tools", dir)
	for _, says := range []string{
		"\nendpoint      sh ./main.sh\n", "\nsandbox       none: it reaches all files and hosts of its executor's user\n",
	} {
		if !strings.Contains(out, says) {
			t.Errorf("show: exit %d, not %q in\n%s", code, says, out)
		}
	}
	code, _, errors = s.do("tools", "new", "greet", "--lang", "python", "--tools", dir)
	exists := "toolbus: the tool greet exists already: choose another name, or remove the folder " +
		filepath.Join(dir, "greet")
	if code != 1 || !strings.Contains(errors, exists) {
		t.Errorf("a second tool of the name: exit %d, %s", code, errors)
	}
}

// programs returns a folder with programs of these names.
func programs(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		write(t, filepath.Join(dir, name), "#!/bin/sh\n")
	}
	return dir
}

// A program that the tool needs is missed before the first call.
func TestToolsNewMissesPrograms(t *testing.T) {
	t.Parallel()
	unreleased := "warning: this toolbus (" + cli.Version() + ") is not built from a released version, so go.mod " +
		"requires none: clone its repository, and run `go mod edit -replace " +
		"github.com/seed-018f16cc/toolbus=CLONE` beside go.mod\n"
	for language, missing := range map[string]string{"shell": "jq", "python": "python3", "node": "node", "go": "go"} {
		s := shell{t: t, environ: []string{"PATH=" + programs(t, "sh")}}
		want := "warning: the tool needs " + missing + ", which is not in PATH: install it\n"
		if language == "go" {
			want += unreleased
		}
		code, _, stderr := s.do("tools", "new", "greet", "--lang", language, "--tools", t.TempDir())
		if code != 0 || stderr != want {
			t.Errorf("%s: exit %d, %q, want %q", language, code, stderr, want)
		}
	}
}

// The manifest has the class, and one that needs a lookup has that, too.
func TestToolsNewClass(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for class, lookup := range map[string]bool{"pure": false, "idempotent": false, "side_effectful": true} {
		code, _, stderr := shell{t: t}.do("tools", "new", class, "--lang", "node", "--class", class, "--tools", dir)
		manifest, err := os.ReadFile(filepath.Join(dir, class, "tool.yaml"))
		if code != 0 || err != nil || !strings.Contains(string(manifest), "\ndeterminism: "+class+"\n") ||
			strings.Contains(string(manifest), "\n  lookup: true") != lookup {
			t.Errorf("%s: exit %d, %s%v\n%s", class, code, stderr, err, manifest)
		}
	}
}

func TestToolsNewRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for says, args := range map[string][]string{
		"expected one tool id, got 0":             {"--lang", "go"},
		"name the language with --lang":           {"greet"},
		`is not a language: use one of go python`: {"greet", "--lang", "ruby"},
		`"safe" is not an effect class`:           {"greet", "--lang", "go", "--class", "safe"},
		`"../greet" is not a tool id: use lower-`: {"../greet", "--lang", "go"},
	} {
		code, out, errors := shell{t: t}.do(append([]string{"tools", "new", "--tools", dir}, args...)...)
		if code != exitUsage || out != "" || !strings.Contains(errors, says) {
			t.Errorf("%q: exit %d, %s%s", args, code, out, errors)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("it wrote %v, %v", files, err)
	}
}

// A Go tool that lies in a module has no go.mod of its own, and no warning about one.
func TestToolsNewInAModule(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example.com/mine\n")
	s := shell{t: t, environ: []string{"PATH=" + programs(t, "go")}}
	code, _, stderr := s.do("tools", "new", "greet", "--lang", "go", "--tools", filepath.Join(dir, "tools"))
	if code != 0 || stderr != "" {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

func TestToolsNewAsJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, out, errors := shell{t: t}.do("tools", "new", "search.web", "--lang", "go", "--tools", dir, "--json")
	var made struct {
		ID, Language, Folder, Test string
		Files                      []string
	}
	err := json.Unmarshal([]byte(out), &made, json.MatchCaseInsensitiveNames(true))
	if code != 0 || err != nil || made.Folder != filepath.Join(dir, "search.web") || made.Language != "go" ||
		!strings.HasSuffix(made.Test, "go build -o bin/search.web .") {
		t.Errorf("exit %d, %s%s%v", code, out, errors, err)
	}
	for _, name := range made.Files {
		if _, err := os.Stat(filepath.Join(made.Folder, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestToolsNewCompletes(t *testing.T) {
	t.Parallel()
	_, out, _ := shell{t: t}.do("__complete", "tools", "new", "greet", "--lang", "")
	if !strings.HasPrefix(out, "go\npython\nnode\nshell\n:4\n") {
		t.Errorf("completes %q", out)
	}
}
