package tool_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// taking returns a function whose input has the schema.
func taking(t testing.TB, schema string) *tool.Function {
	t.Helper()
	s, err := jsonschema.Compile("request.json", []byte(schema), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &tool.Function{Name: "run", Request: s}
}

// unsafe returns why the value is refused as what the format says, or "".
func unsafe(t testing.TB, f *tool.Function, value any, folders ...string) string {
	t.Helper()
	input, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if found := f.Unsafe(t.Context(), input, folders); len(found) > 0 {
		return found[0].Message
	}
	return ""
}

func TestUnsafe(t *testing.T) {
	folders := []string{"/srv/data", "/tmp/", "var", "."}
	for format, cases := range map[string]map[any]string{
		"uri": {
			"http://example.com":                       "",
			"https://example.com:8443/a/../b?c=d%0A#e": "",
			"HTTPS://EXAMPLE.COM/":                     "",
			"http://[::1]:80/":                         "",
			"http://münchen.example/ü":                 "",
			"http://example.com/a@b?c@d":               "",
			"file:///etc/passwd":                       "http or https",
			"javascript:alert(1)":                      "http or https",
			"gopher://example.com":                     "http or https",
			"//example.com":                            "http or https",
			"/etc/passwd":                              "http or https",
			"":                                         "http or https",
			"http://user@example.com":                  "user information",
			"http://user:word@example.com":             "user information",
			"http://@example.com":                      "user information",
			"http://good.com@evil.com":                 "user information",
			"http://good.com%40evil.com":               "an address",
			`http://good.com\@evil.com`:                "an address",
			`http://evil.com\.good.com`:                "an address",
			`http:\\evil.com`:                          "name a host",
			"http:evil.com":                            "name a host",
			"http:///evil.com":                         "name a host",
			"http://:80":                               "name a host",
			"http://exam\nple.com":                     "control character",
			"http://example.com/\r\nHost: evil.com":    "control character",
			"http://example.com/\x00":                  "control character",
			"http://example.com/\u0085":                "control character",
			"http://example.com/\x7f":                  "control character",
			" http://example.com":                      "an address",
			"http ://example.com":                      "an address",
			"http://example.com:port":                  "an address",
			1:                                          "string",
		},
		"path": {
			"a/b":                "",
			"":                   "",
			".":                  "",
			"..a/b..":            "",
			"a/.../b":            "",
			"ü/漢字":               "",
			"/srv/data":          "",
			"/srv/data/":         "",
			"/srv/data/a":        "",
			"//srv//data/./a":    "",
			"/tmp/a":             "",
			"..":                 "member ..",
			"../a":               "member ..",
			"a/../b":             "member ..",
			"a/..":               "member ..",
			"a//../..":           "member ..",
			`a\..\b`:             "member ..",
			`..\a`:               "member ..",
			"/srv/data/../etc":   "member ..",
			"a\x00.txt":          "control or format",
			"a\x1b[2J":           "control or format",
			"a\u202etxt":         "control or format",
			"a\u200d":            "control or format",
			"a\u2028b":           "control or format",
			"file:///etc/passwd": "scheme",
			"a:b":                "scheme",
			"http：//x":           "scheme",
			"~/x":                "~",
			"a/~root/x":          "~",
			"～/x":                "~",
			"a~":                 "",
			"．．/x":               "member ..",
			"a／‥／x":              "member ..",
			"a＼․․＼b":             "member ..",
			"／etc":               "relative",
			"/":                  "relative",
			"/etc/passwd":        "relative, or lie in a folder that the tool may open: /srv/data, /tmp/",
			"/srv/database":      "relative",
			"/srv":               "relative",
			"/var/a":             "relative",
			`\\server\share`:     "relative",
			`C:\Windows`:         "scheme",
			"c:/Windows/a":       "scheme",
			`\srv\data`:          "relative",
			"/SRV/data/a":        "relative",
			"/srv/data\x00/etc":  "control or format",
			1:                    "string",
		},
		"command": {
			"ls -l '/a b' \"c\" *.txt": "",
			"":                         "",
			"ls; rm":                   "not contain",
			"ls | sh":                  "not contain",
			"ls & rm":                  "not contain",
			"echo $HOME":               "not contain",
			"echo `id`":                "not contain",
			"cat < a":                  "not contain",
			"echo > a":                 "not contain",
			"ls\nrm":                   "one line",
			"ls\rrm":                   "one line",
			"ls\u2028rm":               "one line",
			"ls\x00":                   "one line",
			"ls\x1c-l":                 "one line",
			"ls \x1b[A":                "one line",
			"ls \u202e":                "one line",
			"cat ~/.ssh/id":            "~",
			"~/bin/x":                  "~",
			"ls a~ -x=~":               "",
			"curl file:///etc/passwd":  "scheme",
			"run --from=file:/etc/x":   "scheme",
			`C:\x`:                     "scheme",
			"run nginx:latest":         "",
			1:                          "string",
			true:                       "string",
		},
	} {
		f := taking(t, `{"format":"`+format+`"}`)
		if format == "uri" { // without the check of the schema itself
			f = taking(t, `{"anyOf":[{"format":"uri"},{}]}`)
		}
		for value, want := range cases {
			got := unsafe(t, f, value, folders...)
			if (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%s %q: got %q, want %q", format, value, got, want)
			}
		}
	}
}

// The refusal of an absolute path says if the tool declares no folder.
func TestUnsafeWithoutFolders(t *testing.T) {
	if got := unsafe(t, taking(t, `{"format":"path"}`), "/etc"); !strings.HasSuffix(got, "none in capabilities.fs") {
		t.Error(got)
	}
}

func TestUnsafeLists(t *testing.T) {
	vector, paths := taking(t, `{"format":"command"}`), taking(t, `{"format":"path"}`)
	for input, want := range map[string]string{
		`["sh","-c","a; b | c > d\n$e"]`: "", `[]`: "",
		`["a\u0000b"]`: "control", `["a","\u001b[2J"]`: "control", `["a","\u202e"]`: "control", `["a","b\tc\r\n"]`: "",
		`["~/x"]`: "~", `["file:///bin/sh"]`: "scheme", `["ls","~","file:///x"]`: "", `null`: "", `{"a":"b"}`: "string",
		`["ls",["-l"]]`: "list of strings", `["ls",1]`: "list of strings",
		`["ls",null]`: "list of strings",
	} {
		if got := unsafe(t, vector, jsontext.Value(input)); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", input, got, want)
		}
	}
	if got := unsafe(t, paths, []any{"a", []any{"../b"}}); got == "" {
		t.Error("a format of a list holds for nothing in it")
	}
}

// A refusal names the place in the input and the rule, and never the value, which may be a secret.
func TestUnsafePlace(t *testing.T) {
	f := taking(t, `{"properties":{"to":{"items":{"properties":{"a/b":{"type":"string","format":"path"}}}}}}`)
	found := f.Unsafe(t.Context(), jsontext.Value(`{"to":[{"a/b":"fine"},{"a/b":"../secret"}]}`), nil)
	if len(found) != 1 || found[0].Pointer != "/to/1/a~1b" || found[0].Rule != "format" ||
		strings.Contains(found[0].Message, "secret") {
		t.Errorf("found %+v", found)
	}
}

// An independent reading of addresses: the expression of RFC 3986, appendix B.
var addressParts = regexp.MustCompile(`(?s)^(([^:/?#]+):)?(//([^/?#]*))?([^?#]*)(\?([^#]*))?(#(.*))?`)

func FuzzUnsafeAddress(f *testing.F) {
	for _, s := range []string{
		"http://a/b", "https://u@a", "http:a", "ftp://a", "http://a\\@b", "http://[::1]/", "http://a\x01",
	} {
		f.Add(s)
	}
	fn := taking(f, `{"anyOf":[{"format":"uri"},{}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) || unsafe(t, fn, s) != "" {
			return
		}
		p := addressParts.FindStringSubmatch(s)
		scheme, authority := strings.ToLower(p[2]), p[4]
		host, _, _ := strings.Cut(authority, ":")
		if scheme != "http" && scheme != "https" || strings.ContainsAny(authority, `@\`) || host == "" {
			t.Errorf("%q is taken for safe", s)
		}
		for _, r := range s {
			if r < 0x20 || r >= 0x7f && r < 0xa0 {
				t.Errorf("%q has the control character %U", s, r)
			}
		}
	})
}

func FuzzUnsafePath(f *testing.F) {
	for _, s := range []string{
		"a", "../a", "a/../../b", "/srv/data/a", "/srv/data/../a", "/etc", "a\x00", `..\a`, "//srv/data",
	} {
		f.Add(s)
	}
	fn := taking(f, `{"format":"path"}`)
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return
		}
		taken := unsafe(t, fn, s, "/srv/data") == ""
		local := s == "" || filepath.IsLocal(s)
		inside, err := filepath.Rel("/srv/data", s)
		local = local || filepath.IsAbs(s) && err == nil && filepath.IsLocal(inside)
		if taken && (!local || strings.Contains(s, "\x00")) {
			t.Errorf("%q is taken for safe", s)
		}
		elsewhere := strings.ContainsAny(s, "\x00\\:") || slices.Contains(strings.Split(s, "/"), "..")
		if !taken && local && !elsewhere {
			t.Errorf("%q is refused", s)
		}
	})
}

func FuzzUnsafeCommand(f *testing.F) {
	for _, s := range []string{"ls -l", "a;b", "a\nb", "`a`"} {
		f.Add(s)
	}
	fn := taking(f, `{"format":"command"}`)
	allowed := regexp.MustCompile("^[^;|&$`<>\\x00\n\v\f\r\u0085\u2028\u2029]*$")
	f.Fuzz(func(t *testing.T, s string) {
		if utf8.ValidString(s) && (unsafe(t, fn, s) == "") != allowed.MatchString(s) {
			t.Errorf("%q: %q", s, unsafe(t, fn, s))
		}
	})
}

// Whole words of the name of a string, however they are joined, and the first words of its description say whether it
// is a path, an address or a command.
func TestMeant(t *testing.T) {
	const path, uri, command = "path", "uri", "command"
	for name, want := range map[string]string{
		"path": path, "file_path": path, "pathName": path, "paths": path, "filepath": path, "file": path, "sourceFile": path,
		"file_name": path, "fileNames": path, "working-dir": path, "directories": path, "folder": path, "cwd": path,
		"targetUrl": uri, "sourceURL": uri, "URLTarget": uri, "url2": uri, "callback_uri": uri, "href": uri, "urls": uri,
		"CMD": command, "run-command": command, "commands": command, "argv": command,
		"xpath": "", "curl": "", "commander": "", "profile": "", "file_text": "", "fileId": "", "name": "", "dir_count": "",
		"query": "", "": "",
	} {
		got, err := taking(t, `{"properties":{"`+name+`":{"type":"string"}}}`).Unsanitized()
		if err != nil || got["/properties/"+name] != want {
			t.Errorf("%s is meant as %v, want %q: %v", name, got, want, err)
		}
	}
	for description, want := range map[string]string{
		"Path of the file": path, "The absolute path": path, "URL to fetch": uri, "The shell command.": command,
		"(list of) URLs": uri, "Text that goes to the path": "", "An XPath": "", "A file": "",
	} {
		got, err := taking(t, `{"properties":{"a":{"type":"string","description":"`+description+`"}}}`).Unsanitized()
		if err != nil || got["/properties/a"] != want {
			t.Errorf("%s: meant as %v, want %q: %v", description, got, want, err)
		}
	}
}

// Each of these strings that has no format is a warning.
func TestUndeclared(t *testing.T) {
	f := taking(t, `{"properties":{"b_path":{"type":"string"}, "a_url":{"type":"string"}, "path_count":{"type":"integer"},
		"safe_path":{"type":"string","format":"path"}}}`)
	var got []string
	for _, p := range f.Undeclared("a/tool.yaml") {
		if p.Severity != tool.Warning || p.File != "a/tool.yaml" || p.Hint == "" {
			t.Errorf("%+v", p)
		}
		got = append(got, strings.Fields(p.Message)[0])
	}
	if want := []string{"/properties/a_url", "/properties/b_path"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := (&tool.Function{Name: "run"}).Undeclared("a"); got != nil {
		t.Errorf("without a schema: %v", got)
	}
}

// Lint warns of keywords that JSON Schema does not define, and of those of inputs also on the bus. It
// does not warn of those of a server.
func TestLintKeywords(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pay"), 0o755); err != nil {
		t.Fatal(err)
	}
	manifest := `{tool_id: pay, semver: 1.0.0, owner: me, description: d, determinism: pure, transport: native,
		schema: {request: {propertys: {}, x-mine: 1}, response: {properties: {note: {nonsense: 1}}}}}`
	if err := os.WriteFile(filepath.Join(dir, "pay", "tool.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	set, problems, err := tool.Lint(dir, transports()...)
	const input = `pay: warning: the keyword "propertys" at the top of the schema for the input of "*" has no effect ` +
		`(did you mean "properties"?)`
	const output = `pay: warning: the keyword "nonsense" at /properties/note of the schema for the output of "*" ` +
		"has no effect (JSON Schema 2020-12 does not define it: leave it out, or begin its name with x-)"
	if got := strings.ReplaceAll(problems.Error(), "pay/tool.yaml:", "pay:"); err != nil || got != input+"\n"+output {
		t.Fatalf("%v: %s", err, got)
	}
	info, _ := set.Describe(envelope.DescribeRequest{Tool: "pay"})
	if described, err := tool.LintDescription(info[0], transports()...); err != nil || described.Error() != input {
		t.Errorf("%v: %v", err, described)
	}
	info[0].Listed = &envelope.Listed{}
	if described, err := tool.LintDescription(info[0], transports()...); err != nil || len(described) > 0 {
		t.Errorf("of a server: %v: %v", err, described)
	}
}

// A warning about a schema names its file and line, and an error its file, once for all functions that use it.
func TestLintSchemaFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pay"), 0o755); err != nil {
		t.Fatal(err)
	}
	const of = "{request: request.json, response: request.json}"
	files := map[string]string{"tool.yaml": "{tool_id: pay, semver: 1.0.0, owner: me, description: d, " +
		"determinism: pure, transport: native, functions: {a: " + of + ", b: " + of + "}}"}
	for schema, want := range map[string]string{
		"{\n  `propertes`: {}}":                          "pay/request.json:2:3: warning: the keyword `propertes` at the top",
		"{`type`: `objekt`}":                             "pay/tool.yaml:1:",
		"{`properties`:\n{`a_url`: {`type`: `string`}}}": "pay/request.json:2:2: warning: /properties/a_url has no",
	} {
		schema, want = strings.ReplaceAll(schema, "`", `"`), strings.ReplaceAll(want, "`", `"`)
		files["request.json"] = schema
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, "pay", name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, problems, err := tool.Lint(dir, transports()...)
		if err != nil || len(problems) != 1 || !strings.HasPrefix(problems.Error(), want) {
			t.Errorf("%s: %v: %v", schema, err, problems)
		}
	}
}

// Lint warns of such strings, and of nothing else here; the folder is loaded.
func TestLintUndeclared(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "fetch"), 0o755); err != nil {
		t.Fatal(err)
	}
	manifest := `{tool_id: fetch, semver: 1.0.0, owner: me, description: d, determinism: pure, transport: native,
		schema: {request: {properties: {target_url: {type: string}}}, response: {}}}`
	if err := os.WriteFile(filepath.Join(dir, "fetch", "tool.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	set, problems, err := tool.Lint(dir, transports()...)
	if err != nil || problems.Failed() || len(problems) != 1 || problems[0].File != "fetch/tool.yaml" ||
		!strings.HasPrefix(problems[0].Message, "/properties/target_url has no format") {
		t.Fatalf("%v: %v", err, problems)
	}
	info, _ := set.Describe(envelope.DescribeRequest{Tool: "fetch"})
	described, err := tool.LintDescription(info[0], transports()...)
	if err != nil || len(described) != 1 || described[0].File != "fetch" || described[0].Message != problems[0].Message {
		t.Errorf("%v: %v", err, described)
	}
}
