package tool_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// twoErrors are the errors of the manifests in these tests.
const twoErrors = "errors:\n- {code: rate_limited, class: R-UPSTREAM, http_status: 429, message: M1, fix: F1}\n" +
	"- {code: other, class: I-REQ, message: M2, fix: F2}\n"

// fixed lints a folder, mends it, and returns the text of a file and the error of Fix.
func fixed(t *testing.T, dir, name string) (string, error) {
	t.Helper()
	_, problems, err := tool.Lint(dir, transports()...)
	if err != nil {
		t.Fatal(err)
	}
	_, bad := tool.Fix(dir, problems)
	text, err := os.ReadFile(filepath.Join(dir, "search.web", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text), bad
}

// Fix keeps each line that is no table of an error, and has nothing to do a second time. It refuses a page whose tables
// would not be read as such, and leaves it as it is.
func TestFixKeepsText(t *testing.T) {
	const table = "| Class | HTTP status | Retryable | Meaning | Fix |\n|---|---|---|---|---|\n"
	mended := []string{"text below a heading", "a link below a heading", "a table of another kind", "a heading at the end",
		"line ends of another kind", "a byte order mark", "a table in a list", "only the retryable is wrong"}
	for name, page := range map[string]string{
		"text below a heading":          "## other\nfree text\nmore free text\n\nend\n",
		"a link below a heading":        "## other\n[x]: http://a\n\n[x]\n",
		"a table of another kind":       "## rate_limited\n\n| Plan | Quota |\n|---|---|\n| free | 10 |\n| paid | 100 |\n",
		"a column of another kind":      "## other\n\n| Class | Notes | Meaning |\n|---|---|---|\n| I-REQ | mine | old |\n",
		"a table with two rows":         "## other\n\n" + table + "| I-REQ | | | M2 | F2 |\n| I-REQ | | | M3 | F3 |\n",
		"a heading with an underline":   "rate_limited\n------------\n\nfree text\n",
		"cells without text":            "Title line\n\n## rate_limited\n\n||\n|-|\n\nfree\n",
		"a heading at the end":          "# Errors\n\n## other",
		"a fence that is open":          "Title\n\n```\ncode\n",
		"a comment that is open":        "Title\n\n<!-- note\n",
		"a table without a row":         "## other\n\n" + table + "\nfree\n",
		"line ends of another kind":     "# Errors\r\n\r\n## other\r\nfree text\r\n",
		"a byte order mark":             "\ufeff## other\nfree text\n",
		"a table in a list":             "## other\n\n- | Class |\n  |---|\n  | I-REQ |\n",
		"only the retryable is wrong":   "## other\n\n" + table + "| I-REQ | | yes | M2 | F2 |\n",
		"an error that is not declared": "## third\n\n" + table + "| I-REQ | | | M3 | F3 |\n\nfree\n",
	} {
		dir := sourceFolder(t, "search.web", map[string]string{"tool.yaml": sourceManifest(t) + twoErrors, "errors.md": page})
		got, bad := fixed(t, dir, "errors.md")
		if bad != nil && got != page {
			t.Errorf("%s: refused with %v, and changed", name, bad)
		}
		for line := range strings.Lines(page) {
			line = strings.TrimRight(line, "\r\n")
			if !strings.Contains(got, line) && !strings.HasPrefix(line, "| I-REQ | | yes") {
				t.Errorf("%s: %q is gone:\n%s", name, line, got)
			}
		}
		if left := tool.Problems(nil); slices.Contains(mended, name) {
			if _, left, _ = tool.Lint(dir, transports()...); bad != nil || left.Failed() {
				t.Errorf("%s: not mended: %v\n%v\n%s", name, bad, failing(left), got)
			}
		}
		if again, _ := fixed(t, dir, "errors.md"); again != got {
			t.Errorf("%s: a second time it writes\n%s\nin the place of\n%s", name, again, got)
		}
	}
}

// Fix writes a digest that stands alone at the end of its line, and leaves any other one to the author.
func TestFixWritesDigests(t *testing.T) {
	other := "sha256:" + strings.Repeat("0", 64)
	for value, writes := range map[string]bool{
		`"` + other + `"`: true, other: true, "'" + other + "' # comment": true, strings.ToUpper(other): true,
		">-\n  " + other: false, "|\n  " + other: false, "see build log": false, "abc\n  def": false, "'a''b'": false,
		`"a\"b"`: false, "a#b,c d # e": false,
	} {
		manifest := strings.Replace(sourceManifest(t), `"sha256:abcdef..."`, value, 1)
		dir := sourceFolder(t, "search.web", map[string]string{"tool.yaml": manifest, "bin/search.web": "#!/bin/sh\n"})
		got, err := fixed(t, dir, "tool.yaml")
		if err != nil || (got != manifest) != writes {
			t.Errorf("%s: written %t, %v", value, got != manifest, err)
		}
		set, problems, err := tool.Lint(dir, transports()...)
		if err != nil || set.Len() != 1 || writes && strings.Contains(problems.Error(), "digest") {
			t.Errorf("%s: %v, %v", value, err, problems)
		}
	}
}

// Fix refuses a symbolic link, and keeps the mode of a file.
func TestFixKeepsFiles(t *testing.T) {
	manifest := sourceManifest(t) + twoErrors
	dir := sourceFolder(t, "search.web", map[string]string{"tool.yaml": manifest, "errors.md": ""})
	name := filepath.Join(dir, "search.web", "errors.md")
	if err := os.Chmod(name, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := fixed(t, dir, "errors.md"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if err := os.Rename(name, filepath.Join(dir, "search.web", "real.md")); err != nil {
		t.Fatal(err)
	}
	write := filepath.Join(dir, "search.web", "real.md")
	if err := os.WriteFile(write, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real.md", name); err != nil {
		t.Fatal(err)
	}
	if got, err := fixed(t, dir, "errors.md"); err == nil || got != "" || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("through a link it writes %q, %v", got, err)
	}
}
