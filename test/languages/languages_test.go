package languages

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool/scaffold"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// The test binary is also the supervisor of its tools.
func TestMain(m *testing.M) {
	toolbus.SupervisorMain()
	goleak.VerifyTestMain(m)
}

const id = "say.hello"

// TestLanguages writes a tool in each language, tests it as its author would, and calls it.
func TestLanguages(t *testing.T) {
	t.Parallel()
	for _, l := range scaffold.Languages() {
		t.Run(string(l), func(t *testing.T) {
			t.Parallel()
			_, bus := served(t, scaffold.Spec{ID: id, Language: l, Class: scaffold.Pure})
			succeeds(t, bus)
			fails(t, bus, `{"name":"nobody"}`, "I-REQ-UNKNOWN_NAME")
			fails(t, bus, `{"name":""}`, envelope.CodeSchema)
		})
	}
}

// TestFailedProgram breaks the program of each tool: its test shows what the program wrote to standard error.
func TestFailedProgram(t *testing.T) {
	t.Parallel()
	for l, bad := range map[scaffold.Language]string{
		scaffold.Python: "raise SystemExit('no disk')\n", scaffold.Shell: "echo no disk >&2; exit 1\n",
		scaffold.Node: "console.error('no disk'); process.exit(1);\n",
	} {
		for _, class := range []scaffold.Class{scaffold.Pure, scaffold.SideEffectful} {
			made, err := scaffold.Write(t.TempDir(), scaffold.Spec{ID: id, Language: l, Class: class})
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"main.py", "main.sh", "main.mjs"} {
				if slices.Contains(made.Files, name) {
					err = errors.Join(err, os.WriteFile(filepath.Join(made.Folder, name), []byte(bad), 0o600))
				}
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", made.Test)
			cmd.Dir = made.Folder
			out, failed := cmd.CombinedOutput()
			if err != nil || failed == nil || !strings.Contains(string(out), "no disk") {
				t.Errorf("%s, %s: %v, %v\n%s", l, class, err, failed, out)
			}
		}
	}
}

// served writes a tool, tests it as its author would, and starts a bus that runs it.
func served(t *testing.T, s scaffold.Spec) (folder string, bus *toolbustest.Bus) {
	t.Helper()
	dir := t.TempDir()
	made, err := scaffold.Write(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	if s.Language == scaffold.Go {
		useThisModule(t, made.Folder)
	}
	command(t, made.Folder, "sh", "-c", made.Test)
	tools := toolbus.NewToolset()
	if err := tools.AddFolder(dir); err != nil {
		t.Fatal(err)
	}
	return made.Folder, toolbustest.Start(t, tools)
}

// useThisModule makes a Go tool use the sources of this repository, as the README does.
func useThisModule(t *testing.T, folder string) {
	t.Helper()
	const module = "github.com/seed-018f16cc/toolbus"
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	command(t, folder, "go", "mod", "edit", "-require="+module+"@v0.0.0", "-replace="+module+"="+root)
	sums, err := os.ReadFile("../frontdoor/go.sum") // of a module with the same imports
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "go.sum"), sums, 0o600); err != nil {
		t.Fatal(err)
	}
}

// command runs a command in a folder.
func command(t *testing.T, dir string, words ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", words, err, out)
	}
}

// succeeds calls the tool with a name that shells and JSON have to quote, and expects its lines.
func succeeds(t *testing.T, bus *toolbustest.Bus) {
	t.Helper()
	const name = "Zoë \"Z\" \\ $HOME 'O' %s\n\tX"
	var chunks []string
	call := toolbus.Call{Tool: id}
	call.OnChunk = func(c envelope.Chunk) error {
		err := c.Data.Canonicalize()
		chunks = append(chunks, string(c.Kind)+string(c.Data))
		return err
	}
	type input struct {
		Name string `json:"name"`
	}
	got, err := toolbus.Invoke[map[string]string](t.Context(), bus.Client, call, input{name})
	if err != nil || len(got) != 1 || got["text"] != "Hello "+name {
		t.Errorf("output %q, %v", got, err)
	}
	if want := []string{`progress{"done":1,"total":2}`, `data"Hello"`}; !slices.Equal(chunks, want) {
		t.Errorf("chunks %q, want %q", chunks, want)
	}
}

// fails calls the tool with a wrong input, and expects an error without an effect.
func fails(t *testing.T, bus *toolbustest.Bus, input string, code envelope.Code) {
	t.Helper()
	_, err := bus.Call(t.Context(), toolbus.Call{Tool: id, Input: []byte(input)})
	failed, ok := errors.AsType[*toolbus.Error](err)
	if !ok || failed.Code() != code || failed.Effect() != toolbus.EffectNone {
		t.Errorf("%s: %v", input, err)
	}
}
