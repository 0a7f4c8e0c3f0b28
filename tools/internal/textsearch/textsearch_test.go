package textsearch

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/tool/programtest"
	"github.com/seed-018f16cc/toolbus/program"
)

// tree writes files and returns their folder.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, data := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// searchTree returns the matches and the terminal line.
func searchTree(t testing.TB, root string, in Input) ([]match, programtest.Line) {
	t.Helper()
	answer := programtest.Run(t, Tool(root), programtest.NewCall(t, "search", in))
	var all []match
	for _, data := range answer.Data("chunk") {
		var m match
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all, answer.Terminal()
}

// TestLines covers what lines can be like.
func TestLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 1000)
	for name, test := range map[string]struct {
		data, pattern string
		want          []match
	}{
		"no newline at the end": {"a\nneedle", "needle", []match{{Line: 2, Column: 1, Text: "needle"}}},
		"CRLF":                  {"a\r\nneedle\r\n", "needle$", []match{{Line: 2, Column: 1, Text: "needle"}}},
		"byte order mark":       {"\ufeffneedle\n", "^needle", []match{{Line: 1, Column: 1, Text: "needle"}}},
		"invalid UTF-8":         {"caf\xe9 needle\n", "needle", []match{{Line: 1, Column: 6, Text: "caf\uFFFD needle"}}},
		"empty lines":           {"\n\n\n", "^$", []match{{Line: 1, Column: 1}, {Line: 2, Column: 1}, {Line: 3, Column: 1}}},
		"empty file":            {"", "^$", nil},
		"no match over lines":   {"a\nb\n", `a\s*b|a[^x]b`, nil},
		"first match of a line": {"xx needle needle\n", "needle", []match{{Line: 1, Column: 4, Text: "xx needle needle"}}},
		"long line, start": {"needle" + long, "needle",
			[]match{{Line: 1, Column: 1, Text: "needle" + strings.Repeat("ü", 197) + "…"}}},
		"long line, middle": {long + "needle" + long, "needle", []match{{
			Line: 1, Column: 1001, Text: "…" + strings.Repeat("ü", 50) + "needle" + strings.Repeat("ü", 147) + "…"}}},
		"long line, end": {long + "needle", "needle",
			[]match{{Line: 1, Column: 1001, Text: "…" + strings.Repeat("ü", 197) + "needle"}}},
		"control character": {"\x1b[31mneedle\n", "needle", []match{{Line: 1, Column: 6, Text: "\x1b[31mneedle"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range test.want {
				test.want[i].Path, test.want[i].Before, test.want[i].After = "file", []string{}, []string{}
			}
			got, _ := searchTree(t, tree(t, map[string]string{"file": test.data}), Input{Pattern: test.pattern})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPassedOver covers files that are not searched.
func TestPassedOver(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{
		"text":   "needle\n",
		"binary": "\x7fELF\x00needle\n",
		"utf16":  "\xff\xfen\x00e\x00e\x00d\x00l\x00e\x00",
		"large":  "needle\n" + strings.Repeat("x", maxFile),
		"odd":    strings.Repeat("x", 8<<10) + "\x00needle\n", // a NUL byte too late to count
	})
	for link, target := range map[string]string{"link": "text", "out": "/", "loop": ".", "ring": "ring"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	matches, last := searchTree(t, root, Input{Pattern: "needle"})
	if len(matches) != 2 || matches[0].Path != "odd" || matches[1].Path != "text" {
		t.Errorf("matches are %+v", matches)
	}
	if diff := cmp.Diff([]string{"files larger than 16 MiB were not searched: 1"}, last.Warnings); diff != "" {
		t.Error(diff)
	}
	for path, code := range map[string]string{"out": "path_outside", "out/etc": "path_outside", "pipe": "not_found",
		"text/x": "not_found", "ring": "not_found"} {
		if _, last := searchTree(t, root, Input{Pattern: "needle", Paths: []string{path}}); last.Error == nil ||
			last.Error.Code != code {
			t.Errorf("%s: %+v, want %s", path, last.Error, code)
		}
	}
	if matches, _ := searchTree(t, root, Input{Pattern: "needle",
		Paths: []string{"link", "loop/text"}}); len(matches) != 2 {
		t.Errorf("links inside the root that are asked for: %+v", matches)
	}
}

func TestMissingRoot(t *testing.T) {
	t.Parallel()
	_, last := searchTree(t, filepath.Join(t.TempDir(), "none"), Input{Pattern: "a"})
	if last.Error == nil || last.Error.Code != "not_found" {
		t.Errorf("%+v", last)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]Input{
		"in a file":               {Pattern: "needle"},
		"in folders without file": {Pattern: "needle", Glob: []string{"*.none"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := json.Marshal(programtest.NewCall(t, "search", in))
			if err != nil {
				t.Fatal(err)
			}
			root := tree(t, map[string]string{"file": "needle\n"})
			var stdout bytes.Buffer
			if err := program.Run(programtest.Cancelled(t), Tool(root), bytes.NewReader(data), &stdout); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(stdout.String(), `"code":"timeout"`) {
				t.Error(stdout.String())
			}
		})
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	var failure *program.Error
	err := classify(&os.PathError{Op: "openat", Path: "/the/root/x", Err: syscall.EACCES}, "x")
	if !errors.As(err, &failure) || failure.Code != "io_error" ||
		failure.Message != "x cannot be read: permission denied" {
		t.Errorf("%+v", err)
	}
	if err := classify(io.ErrClosedPipe, "x"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a lost reader becomes %v", err)
	}
}

// TestOutputLimit fills the output limit with the worst lines.
func TestOutputLimit(t *testing.T) {
	t.Parallel()
	worst := strings.Repeat("\x01", 1<<10) + "\n"
	root := tree(t, map[string]string{"file": strings.Repeat(worst, 10_000)})
	answer := programtest.Run(t, Tool(root),
		programtest.NewCall(t, "search", Input{Pattern: `\x01`, Context: 5, MaxMatches: 10_000}))
	if out := programtest.Decode[Output](t, answer); !out.Truncated || len(answer.Raw) > 8<<20 ||
		len(answer.Raw) < maxOutput {
		t.Errorf("%+v in %d bytes", out, len(answer.Raw))
	}
	if warnings := answer.Terminal().Warnings; len(warnings) != 1 {
		t.Errorf("warnings are %q", warnings)
	}
}
