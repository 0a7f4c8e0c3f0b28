package tool_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Each malformed manifest is refused with file, line, column and fix. testdata/malformed.golden has all problems.
func TestMalformed(t *testing.T) {
	cases, err := txtar.ParseFile("testdata/malformed.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(cases.Files) < 90 {
		t.Errorf("only %d manifests", len(cases.Files))
	}
	var all strings.Builder
	for _, c := range cases.Files {
		_, err := tool.LoadFS(folder("web.fetch", string(c.Data)+"\n", nil), transports()...)
		var problems tool.Problems
		if !errors.As(err, &problems) {
			t.Errorf("%s: %v", c.Name, err)
		}
		all.WriteString(c.Name + "\n")
		for _, p := range problems {
			all.WriteString("  " + p.String() + "\n")
			if p.File == "" || p.Line == 0 || p.Column == 0 || p.Hint == "" {
				t.Errorf("%s: a problem without its place or fix: %s", c.Name, p)
			}
		}
	}
	const golden = "testdata/malformed.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), all.String()); diff != "" {
		t.Errorf("problems (-want +got), -update writes them:\n%s", diff)
	}
}

// FuzzManifest loads manifests. Each is loaded, or refused with places and fixes.
func FuzzManifest(f *testing.F) {
	for _, seed := range []string{
		minimal, full, camelCase, "schema: {request: {}, response: {}}\n", "name: a.b\ntool_id: c\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, manifest string) {
		_, err := tool.LoadFS(folder("web.fetch", manifest+"\n", nil), transports()...)
		var problems tool.Problems
		if err != nil && !errors.As(err, &problems) {
			t.Fatal(err)
		}
		for _, p := range problems {
			if p.Message == "" || p.Hint == "" || strings.ContainsAny(p.String(), "\n\r") {
				t.Errorf("problem %q", p.String())
			}
		}
	})
}
