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
	var out bytes.Buffer
	table := &demo.Table{Out: &out}
	o := demo.Options{Self: filepath.Join(dir, "toolbus"), Environ: os.Environ(), Show: table}
	report, err := demo.Run(t.Context(), o)
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
