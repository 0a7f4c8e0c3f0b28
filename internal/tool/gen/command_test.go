package gen_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/gen"
)

// do runs a command line, and returns what it writes.
func do(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := gen.Command(cli.Env{Stdout: &out, Stderr: t.Output()})
	cmd.SetArgs(args)
	cmd.SetOut(t.Output())
	cmd.SetErr(t.Output())
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcp.json")
	printed, err := do(t, "mcp", "--tools", "testdata/tools")
	if err != nil || !strings.Contains(printed, `"tree_walk_run"`) {
		t.Fatalf("%s, %v", printed, err)
	}
	if _, err := do(t, "mcp", "--tools", "testdata/tools", "--out", file); err != nil {
		t.Fatal(err)
	}
	if _, err := do(t, "mcp", "--tools", "testdata/tools", "--check", file); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(printed, "tree_walk_run", "other", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range [][]string{
		{"mcp", "--tools", "testdata/tools", "--check", file}, {"mcp", "--tools", "testdata/tools", "--check", file + "x"},
		{"mcp", "--tools", "testdata/none"}, {"mcp", "more"}, {"nothing"},
		{"mcp", "--tools", "testdata/tools", "--check", file, "--out", file},
	} {
		if out, err := do(t, wrong...); err == nil || out != "" {
			t.Errorf("%v: %q, %v", wrong, out, err)
		}
	}
}

// Without a tier there are no objectives, which the command says on standard error.
func TestAlertsWithoutObjectives(t *testing.T) {
	for tools, want := range map[string]bool{t.TempDir(): true, "testdata/tools": false} {
		var says bytes.Buffer
		cmd := gen.Command(cli.Env{Stdout: t.Output(), Stderr: &says})
		cmd.SetArgs([]string{"alerts", "--tools", tools})
		if err := cmd.ExecuteContext(t.Context()); err != nil || strings.Contains(says.String(), "no tool declares") != want {
			t.Errorf("%s: %q, %v", tools, says.String(), err)
		}
	}
}
