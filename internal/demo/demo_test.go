package demo_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/demo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun runs the whole demo with the real programs.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	build(t, dir+"/", "./cmd/toolbus", "./cmd/toolbus-supervisor")
	tools := filepath.Join(dir, "tools")
	for folder, program := range map[string]string{"web_2efetch": "web-fetch", "transcript_2eclean": "transcript-clean"} {
		to := filepath.Join(tools, folder)
		if err := os.CopyFS(to, os.DirFS("../../tools/"+folder)); err != nil {
			t.Fatal(err)
		}
		build(t, filepath.Join(to, program), "./tools/"+folder)
	}
	var out bytes.Buffer
	table := &demo.Table{Out: &out}
	report, err := demo.Run(t.Context(), demo.Options{
		Self: filepath.Join(dir, "toolbus"), Tools: tools, Environ: os.Environ(), Show: table,
	})
	if err != nil {
		t.Fatal(err)
	}
	table.Summary(report)
	t.Logf("\n%s", &out)
	if !report.OK || len(report.Lines) != 8 || len(report.Trail) < 2 {
		t.Errorf("%d lines, ok: %t, %d audit records", len(report.Lines), report.OK, len(report.Trail))
	}
}

func build(t *testing.T, to string, packages ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-o", to}, packages...)...)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %v: %v\n%s", packages, err, out)
	}
}

func TestRunWithoutTools(t *testing.T) {
	_, err := demo.Run(t.Context(), demo.Options{Self: os.Args[0], Tools: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "--tools") {
		t.Errorf("the error does not say what to do: %v", err)
	}
}

func TestRunWithToolsThatAreNotBuilt(t *testing.T) {
	tools := t.TempDir()
	for _, folder := range []string{"web_2efetch", "transcript_2eclean"} {
		to := filepath.Join(tools, folder)
		if err := os.CopyFS(filepath.Join(to, "schema"), os.DirFS("../../tools/"+folder+"/schema")); err != nil {
			t.Fatal(err)
		}
		manifest, err := os.ReadFile("../../tools/" + folder + "/tool.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, "tool.yaml"), manifest, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := demo.Run(t.Context(), demo.Options{Self: os.Args[0], Tools: tools})
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("the error does not say what to do: %v", err)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	table := &demo.Table{Out: &out}
	table.Status("not shown without a terminal")
	table.Line(demo.Line{
		Number: 1, Scene: "a page is fetched", After: 400 * time.Millisecond, Outcome: "success", MS: 35, OK: true,
		Happened: "a page", Notes: []string{strings.Repeat("long ", 30)},
	})
	table.Line(demo.Line{Number: 2, Scene: "a duplicate joins", After: 2 * time.Second, Outcome: "success",
		Fault: "should be: one run\nshould be: joined"})
	table.Trail([]admin.AuditRecord{{
		Event: string(audit.ToolExecuted), Time: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC), CallID: "c", Attempt: 1,
		Status: envelope.Success, DecidedBy: string(call.ByExecutor), Effect: envelope.EffectApplied,
		ArgumentsHash: strings.Repeat("a", 64),
	}})
	table.Summary(demo.Report{Lines: []demo.Line{{OK: true}, {}}, MS: 2040})
	want, err := os.ReadFile("testdata/table.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("the table reads (-want +got):\n%s", diff)
	}
}

func TestTableOnTerminal(t *testing.T) {
	var out bytes.Buffer
	table := &demo.Table{Out: &out, Terminal: true}
	table.Status(strings.Repeat("ü", 200))
	table.Line(demo.Line{Number: 1, OK: true})
	const clear = "\r\x1b[K"
	if got := out.String(); !strings.HasPrefix(got, clear+"… ü") || strings.Count(got, clear) != 2 {
		t.Errorf("the status line is not wiped: %q", got)
	}
}
