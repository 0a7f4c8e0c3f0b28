package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An unreadable input is refused before the command connects, with the position of the error.
func TestInputSaysWhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "input.json")
	if err := os.WriteFile(file, []byte("\n{\n  \"text\": \"caf\xe9\"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for input, says := range map[string][]string{
		"{\"a\": 1,\n \"b\" 2}":   {"--input cannot be read", "line 2, column 6: not JSON: ", "(at /b)"},
		`{"say"`:                  {"line 1, column 7: not JSON: it ends here"},
		"{\n\"a\":1,\n\"a\":2\n}": {"line 3, column 1: ", "duplicate", "(at /a)"},
		"@" + file:                {"@" + file, "line 3, column 15: the byte 0xe9", "not valid UTF-8", "iconv", "(at /text)"},
		"\xff\xfe{\x00}\x00":      {"line 1, column 1", "UTF-16"},
		"\xef\xbb\xbf{}":          {"line 1, column 1", "byte order mark"},
		" \n ":                    {"is empty"},
		"name=a":                  {`write JSON, such as --input '{"name": "Ada"}', or --input @FILE`},
		"{name:Ada}":              {`single ones: --input '{"name": "Ada"}'`},
		"{'name': 'Ada'}":         {`single ones: --input '{"name": "Ada"}'`},
		file:                      {"to read the file, write --input @" + file},
	} {
		code, _, stderr := shell{t: t, url: "nats://127.0.0.1:1"}.do("call", "play", "--input", input)
		for _, want := range says {
			if code != exitUsage || !strings.Contains(stderr, want) {
				t.Errorf("%q: exit %d, want %q: %s", input, code, want, stderr)
			}
		}
	}
}

// An input in the place of a function is refused before the command connects, too.
func TestInputWithoutFlag(t *testing.T) {
	code, _, stderr := shell{t: t, url: "nats://127.0.0.1:1"}.do("call", "play", `{"say":"hi"}`)
	if code != exitUsage || !strings.Contains(stderr, "put the input behind --input") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// A value that JSON libraries read differently is an error of the call, with its position in the input.
func TestInputThatCannotBeKept(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	code, _, stderr := s.do("call", "play", "--input", "\n\n{\"say\": 9007199254740993}")
	if code != exitInvalid || !strings.Contains(stderr, "/input/say: line 3, column 9: the number 9007199254740993") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// An error about an unknown name suggests a similar one.
func TestSuggestions(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	for args, says := range map[string]string{
		"call plya":            `there is no tool "plya"; did you mean "play"?`,
		"tools show pley":      `there is no tool "pley"; did you mean "play"?`,
		"call play paly":       `tool "play" has no function "paly"; did you mean "play"?`,
		"call play frobnicate": "use one of the functions of the tool: play",
	} {
		if code, _, stderr := s.do(strings.Fields(args)...); code != exitInvalid || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit %d, want %s: %s", args, code, says, stderr)
		}
	}
}

// Command lines that are not complete say how one looks, and a version in the place of a tool id names the flag.
func TestCommandLinesOfCalls(t *testing.T) {
	for line, want := range map[string]string{
		"call play@2": "name a version as in 'play' --version '2'",
		"call":        "expected a tool, and its function if it has several, as in `toolbus call text.search --input '",
		"result":      "expected one call reference, such as text_2esearch.0kd3…, which `toolbus call` prints, got 0",
	} {
		code, _, stderr := shell{t: t, url: "nats://127.0.0.1:1"}.do(strings.Fields(line)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d: %s", line, code, stderr)
		}
	}
}
