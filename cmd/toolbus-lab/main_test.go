package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/bench"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

var update = flag.Bool("update", false, "write testdata/help of TestHelp")

// do runs a command line, and returns the exit code and what it printed.
func do(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := cli.Env{Stdout: &out, Stderr: &errs}
	code = cli.Execute(t.Context(), env, newRoot(env, strings.NewReader("")), args)
	return code, out.String(), errs.String()
}

// The help of each command is a file of testdata/help; -update writes them.
func TestHelp(t *testing.T) {
	for _, name := range []string{"", "chaos", "bench", "sbom"} {
		code, help, _ := do(t, append(strings.Fields(name), "--help")...)
		if code != 0 || !strings.Contains(help, "\nExamples:\n  ") {
			t.Errorf("%s --help: exit %d, %s", name, code, help)
		}
		for line := range strings.Lines(help) {
			if len([]rune(line)) > 121 {
				t.Errorf("%s --help: longer than 120 columns: %s", name, line)
			}
		}
		file := filepath.Join("testdata/help", strings.TrimSuffix("toolbus-lab_"+name, "_")+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(help), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || string(want) != help {
			t.Errorf("%s --help is not %s (%v); -update writes it:\n%s", name, file, err, help)
		}
	}
}

// A wrong command line starts nothing, and says what is wrong.
func TestUsage(t *testing.T) {
	for line, says := range map[string]string{
		"bench --server nats://bus":      "unknown flag: --server",
		"bench --duration -1s":           "more than 0",
		"bench --rounds 0":               "more than 0",
		"bench --rate -1":                "0 or more",
		"bench more":                     "expected no arguments, got 1",
		"chaos --server nats://bus":      "unknown flag: --server",
		"chaos --duration 0":             "more than 0",
		"chaos --rate -1":                "more than 0",
		"chaos --calls -1":               "0 or more",
		"chaos --servers 2":              "1 or 3",
		"chaos --fault leader":           "--servers 3",
		"chaos --servers 3 --fault rain": "leader, rolling, freeze, all",
		"chaoss":                         "did you mean chaos?",
	} {
		if code, out, said := do(t, strings.Fields(line)...); code != 2 || out != "" || !strings.Contains(said, says) {
			t.Errorf("%s: exit %d, %s%s, want %q", line, code, out, said, says)
		}
	}
}

// Without the program toolbus, the error says how to get it.
func TestNoToolbus(t *testing.T) {
	for _, command := range []string{"bench", "chaos"} {
		code, _, said := do(t, command, "--toolbus", filepath.Join(t.TempDir(), "toolbus"))
		if code != 1 || !strings.Contains(said, "make build") || !strings.Contains(said, "--toolbus") {
			t.Errorf("%s: exit %d, %s", command, code, said)
		}
	}
}

// A benchmark that misses a target fails.
func TestBenchTargets(t *testing.T) {
	for ok, want := range map[bool]bool{true: false, false: true} {
		if err := met(&bench.Report{Rows: []bench.Row{{Checks: []bench.Check{{Met: ok}}}}}); (err != nil) != want {
			t.Errorf("met %t: %v", ok, err)
		}
	}
}
