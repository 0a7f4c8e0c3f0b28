package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files are named as the user reaches them, every folder of a tool counts, and one of a thing is no plural.
func TestToolsLint(t *testing.T) {
	dir, _ := sayTools(t)
	t.Chdir(filepath.Dir(dir))
	manifest := filepath.Join(dir, "say", "tool.yaml")
	lints := func(text, begins, ends string, flags ...string) {
		t.Helper()
		write(t, manifest, sayManifest+text)
		_, out, stderr := shell{t: t}.do(append([]string{"tools", "lint", "./tools"}, flags...)...)
		if !strings.HasPrefix(out, begins) || !strings.HasSuffix(out, ends) {
			t.Errorf("with %q: %s%s", text, out, stderr)
		}
	}
	lints("", "", "1 tool in ./tools, 0 problems, 0 warnings\n")
	lints("nonsense: 1\n", "tools/say/tool.yaml:8:1: ", "\n1 tool in ./tools, 1 problem, 0 warnings\n")
	write(t, manifest, strings.Replace(sayManifest, "command:", "comand:", 1))
	_, out, _ := shell{t: t}.do("tools", "lint", "tools")
	if !strings.HasSuffix(out, "\n1 tool in tools, 1 problem, 0 warnings\n") ||
		!strings.Contains(out, `unknown field "comand"`) {
		t.Errorf("of a misspelt command it says %s", out)
	}
	lints("digest: sha256:"+strings.Repeat("0", 64)+"\n", "tools/say/tool.yaml: written\n",
		"\n1 tool in ./tools, 0 problems, 0 warnings\n", "--fix")
	write(t, filepath.Join(dir, "say.sh"), saying("elsewhere"))
	bare := filepath.Join(dir, "say", "bare.sh")
	write(t, bare, "exit\n")
	if err := os.Chmod(bare, 0o755); err != nil {
		t.Fatal(err)
	}
	for command, says := range map[string]string{
		"[pyton3, ./say.sh]":             ":6:22: the tool cannot run here: pyton3 is not in PATH: write its whole path",
		"[/none/python, ./say.sh]":       ":6:22: the tool cannot run here: stat /none/python: no such file or directory ",
		"[./bare.sh]":                    ":6:22: the tool cannot run here: " + bare + " has no #! line",
		"[sh, ../say.sh]":                ": warning: the file ../say.sh is outside of the tool's folder, ",
		"[sh, /etc/passwd, ../say/no]":   "",
		"[./say.sh, ../say, -c, ../no/]": "",
	} {
		write(t, manifest, strings.Replace(sayManifest, "[./say.sh]", command, 1))
		code, out, _ := shell{t: t}.do("tools", "lint", "tools")
		if strings.Contains(says, "cannot run") != (code == 1) {
			t.Errorf("with command %s it exits with %d", command, code)
		}
		if says == "" && !strings.HasSuffix(out, "1 tool in tools, 0 problems, 0 warnings\n") ||
			says != "" && (!strings.HasPrefix(out, "tools/say/tool.yaml"+says) || strings.Count(out, "\n") != 2) {
			t.Errorf("with command %s: %s", command, out)
		}
	}
	t.Chdir(filepath.Join(dir, "say"))
	if _, _, stderr := (shell{t: t}).do("tools", "lint", "."); !strings.Contains(stderr, "`toolbus tools lint ..`") {
		t.Errorf("in the folder of a tool: %s", stderr)
	}
	t.Chdir(filepath.Dir(dir))
	another(t, dir, "two", "nonsense: 1\nmore: 1\n")
	lints("health: {liveness: 'cmd:./health'}\n", "tools/say/tool.yaml:8:1: warning: ",
		"\n2 tools in ./tools, 2 problems, 1 warning\n")
	_, _, stderr := shell{t: t}.do("dev", "--tools", "tools", "--data-dir", t.TempDir())
	if !strings.Contains(stderr, "tools/two/tool.yaml:8:1: ") {
		t.Errorf("dev says %s", stderr)
	}
}

// Without a bus, the command says how a folder is checked.
func TestLintWithoutABus(t *testing.T) {
	_, _, stderr := shell{t: t, url: "nats://127.0.0.1:1"}.do("tools", "lint")
	if !strings.Contains(stderr, "`toolbus tools lint DIR` checks a folder, without a bus") {
		t.Error(stderr)
	}
}
