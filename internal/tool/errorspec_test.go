package tool_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// declaringErrors is an errors.md whose tables declare two errors.
const declaringErrors = "# Errors\n\nThis page is for people.\n\n## rate_limited\n\n" +
	"| Class | HTTP status | Retryable | Meaning | Fix |\n|---|---|---|---|---|\n" +
	"| R-UPSTREAM | 429 | yes | Rate limited \\| upstream | wait |\n\nThe quota is per key.\n\n" +
	"```\n## not_a_section\n```\n\n## `bad_query`\n\n" +
	"| Fix | Meaning | Class | HTTP status |\n|---|---|---|---|\n| shorten it | The query is too long | `I-REQ` | |\n"

// errorsOf are the errors that declaringErrors declares.
func errorsOf() map[string]tool.ErrorSpec {
	return map[string]tool.ErrorSpec{
		"rate_limited": {Name: "rate_limited", Class: envelope.ClassUpstream, HTTPStatus: 429,
			Message: "Rate limited | upstream", Fix: "wait"},
		"bad_query": {Name: "bad_query", Class: envelope.ClassRequest, Message: "The query is too long", Fix: "shorten it"},
	}
}

// withPage returns the tool whose errors.md is page, and whose manifest has no errors.
func withPage(t *testing.T, page string) *tool.Manifest {
	t.Helper()
	return mustLoad(t, folder("web.fetch", minimal+"errorspec: errors.md\n", map[string]string{"errors.md": page}))
}

// Without errors in the manifest, the tables of errors.md declare them.
func TestTablesDeclareErrors(t *testing.T) {
	m := withPage(t, declaringErrors)
	if diff := cmp.Diff(errorsOf(), m.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	digest := func(old, with string) string {
		page := strings.Replace(declaringErrors, old, with, 1)
		return withPage(t, page).Digest
	}
	if digest("per key", "per host") != m.Digest {
		t.Error("free text changes the build digest")
	}
	if digest("429", "430") == m.Digest {
		t.Error("another declaration leaves the build digest as it is")
	}
}

// Each fault in an errors.md that declares errors is named with its line, and keeps the folder from being loaded.
func TestBadErrorspecs(t *testing.T) {
	const (
		head = "| Class | HTTP status | Retryable | Meaning | Fix |\n|---|---|---|---|---|\n"
		good = "| S-TOOL | | | m | f |\n"
	)
	for _, c := range []struct{ name, text, want string }{
		{"no table", "## gone\n\nfree text\n", `errors.md:1:1: gone has no table (| Class |`},
		{"no name", "# x\n\n## Not A Name\n\n" + head + good, `:3:1: "Not A Name" is not an error name`},
		{"empty name", "##\n\n" + head + good, ":1:1: a section has no name"},
		{"no class", "## gone\n\n" + head + "| | | | m | f |\n", `:1:1: "" is not a class of the taxonomy`},
		{"another class", "## gone\n\n" + head + "| S-TOOLS | | | m | f |\n",
			`:1:1: "S-TOOLS" is not a class of the taxonomy`},
		{"no fix", "## gone\n\n" + head + "| S-TOOL | | | m | |\n", ":1:1: gone needs a meaning and a fix"},
		{"a status of a success", "## gone\n\n" + head + "| S-TOOL | 200 | | m | f |\n",
			`:1:1: "200" is not the HTTP status of an error`},
		{"a status in words", "## gone\n\n" + head + "| S-TOOL | teapot | | m | f |\n",
			`"teapot" is not the HTTP status of an error`},
		{"retryable against its class", "## gone\n\n" + head + "| I-REQ | | yes | m | f |\n",
			`gone is retryable: "yes", and its class says no`},
		{"two rows", "## gone\n\n" + head + good + good, ":1:1: the table of an error has one row"},
		{"an unknown column", "## gone\n\n| Class | Severity |\n|---|---|\n| S-TOOL | 1 |\n",
			`:1:1: unknown column "severity"`},
		{"twice", "## gone\n\n" + head + good + "\n## gone\n\n" + head + good,
			`the error "gone" is declared twice`},
	} {
		_, err := tool.LoadFS(folder("web.fetch", minimal+"errorspec: errors.md\n",
			map[string]string{"errors.md": c.text}), transports()...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	_, err := tool.LoadFS(folder("web.fetch", minimal+"errorspec: missing.md\n", nil), transports()...)
	if want := `tool.yaml:11:12: missing.md: file does not exist (put the file there, it may be empty`; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("a missing file: %v", err)
	}
}

// lintAndFix lints a folder with one tool, mends it, and returns the problems before and after.
func lintAndFix(t *testing.T, dir string) (before, after tool.Problems) {
	t.Helper()
	_, before, err := tool.Lint(dir, transports()...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Fix(dir, before); err != nil {
		t.Fatal(err)
	}
	if _, after, err = tool.Lint(dir, transports()...); err != nil {
		t.Fatal(err)
	}
	return before, after
}

// failing returns the problems that are no warnings.
func failing(all tool.Problems) tool.Problems {
	return slices.DeleteFunc(slices.Clone(all), func(p tool.Problem) bool { return p.Severity == tool.Warning })
}

// If the manifest declares errors, lint fails where errors.md differs, and --fix writes the tables. The free text
// stays.
func TestFixWritesTables(t *testing.T) {
	const errors = "errors:\n" +
		"- {code: rate_limited, class: R-UPSTREAM, http_status: 503, message: \"a | b\", fix: wait}\n" +
		"- {code: gone, class: P-PRECOND, message: gone, fix: look elsewhere}\n"
	for name, text := range map[string]string{
		"an empty page": "", "a page of text": "# Errors\n\ntext\n", "a page with tables": declaringErrors,
		"without a table": "## gone\n\nfree *text*\n", "a line that does not end": "## gone", "a mark": "\ufeff## gone\n",
	} {
		manifest := sourceManifest(t) + errors
		dir := sourceFolder(t, "search.web", map[string]string{"tool.yaml": manifest, "errors.md": text})
		if _, err := tool.Load(dir, transports()...); err != nil {
			t.Errorf("%s: a difference keeps the folder from being loaded: %v", name, err)
		}
		before, after := lintAndFix(t, dir)
		if !before.Failed() {
			t.Errorf("%s: lint does not fail", name)
		}
		left := failing(after)
		if name == "a page with tables" { // the section of an error that the manifest does not have is the author's
			const want = "errors.md:17:1: bad_query is not an error of the manifest"
			if len(left) != 1 || !strings.Contains(left[0].String(), want) {
				t.Errorf("%s: left %v", name, left)
			}
		} else if len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
		got, err := os.ReadFile(filepath.Join(dir, "search.web", "errors.md"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "|") && !strings.Contains(string(got), line) {
				t.Errorf("%s: %q is gone:\n%s", name, line, got)
			}
		}
		if want := "| R-UPSTREAM | 503 | yes | a \\| b | wait |"; !strings.Contains(string(got), want) {
			t.Errorf("%s: no row %s in\n%s", name, want, got)
		}
	}
}

// No call runs if the manifest has the SHA-256 of another program. A text that is not a SHA-256 is only a warning. Fix
// writes the SHA-256 of the program in both cases.
func TestArtifactDigest(t *testing.T) {
	const program = "#!/bin/sh\n"
	other := "sha256:" + strings.Repeat("0", 64)
	for _, c := range []struct {
		digest  string
		fails   bool
		differs bool
	}{{`"sha256:abcdef..."`, false, false}, {other, true, true}, {"'" + other + "' # of yesterday", true, true}} {
		manifest := strings.Replace(sourceManifest(t), `"sha256:abcdef..."`, c.digest, 1)
		dir := sourceFolder(t, "search.web", map[string]string{"tool.yaml": manifest, "bin/search.web": program})
		set, err := tool.Load(dir, transports()...)
		if err != nil {
			t.Fatal(err)
		}
		m := set.List()[0]
		if (m.Actual != "") != c.differs {
			t.Errorf("%s: the program has %q", c.digest, m.Actual)
		}
		const fix = "`toolbus tools lint --fix"
		if e := m.NeverRuns(); (e != nil) != c.differs || e != nil && !strings.Contains(e.Fix, fix) {
			t.Errorf("%s: refused with %+v", c.digest, e)
		}
		before, after := lintAndFix(t, dir)
		if c.differs && !strings.Contains(before.Error(), fix) {
			t.Errorf("%s: %v", c.digest, before)
		}
		if before.Failed() != c.fails || after.Failed() || strings.Contains(after.Error(), "SHA-256") {
			t.Errorf("%s: before\n%v\nafter\n%v", c.digest, before, after)
		}
		if strings.Contains(c.digest, "#") {
			text, _ := os.ReadFile(filepath.Join(dir, "search.web", "tool.yaml"))
			if !strings.Contains(string(text), " # of yesterday") {
				t.Error("the comment is gone")
			}
		}
	}
}

// FuzzErrorspec reads pages. A page that declares errors without a problem can be written from them.
func FuzzErrorspec(f *testing.F) {
	for _, seed := range []string{
		"", declaringErrors, "## a\n\n|Class|\n|-|\n|S-TOOL|\n", "##\n", "## a\r\n", "> ## a\n", "- ## x\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, page string) {
		declared, problems := tool.ParseErrors([]byte(page))
		if len(problems) > 0 {
			return
		}
		var again strings.Builder
		for _, e := range declared {
			again.WriteString("## " + e.Name + "\n\n" + e.Table() + "\n")
		}
		second, problems := tool.ParseErrors([]byte(again.String()))
		if diff := cmp.Diff(declared, second); diff != "" || len(problems) > 0 {
			t.Errorf("%v (-want +got):\n%s\n%s", problems, diff, &again)
		}
	})
}
