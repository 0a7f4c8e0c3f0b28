package policy_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	google "github.com/google/jsonschema-go/jsonschema"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

var update = flag.Bool("update", false, "write the golden files")

// small is a valid set.
func small() policy.Documents {
	return policy.Documents{
		Roles: []byte("roles: [{role_id: agent, allowed_lanes: [default]}]\n"),
		Lanes: []byte("lanes: [{lane_id: default, allowed_tools: [\"*\"], required_scope_keys: [case_id]}]\n"),
		ToolRegistry: []byte(`tools:
  - {tool_name: a, description: d, enabled: true, idempotent: true, timeout_default_ms: 1, allowed_lanes: [default],
     required_scope_keys: [], prohibited_flags: [force], versions: ^1.2}
`),
	}
}

// folder returns a folder with the documents.
func folder(d policy.Documents) fstest.MapFS {
	return fstest.MapFS{
		policy.RolesFile: {Data: d.Roles}, policy.LanesFile: {Data: d.Lanes},
		policy.ToolRegistryFile: {Data: d.ToolRegistry},
	}
}

// with returns the small set with another document, whose name is roles, lanes or tools.
func with(document, text string) policy.Documents {
	d := small()
	switch document {
	case "roles":
		d.Roles = []byte(text)
	case "lanes":
		d.Lanes = []byte(text)
	case "tools":
		d.ToolRegistry = []byte(text)
	}
	return d
}

func TestParse(t *testing.T) {
	set, err := policy.Parse(small())
	if err != nil {
		t.Fatal(err)
	}
	lane := policy.Lane{
		ID: "default", AllowedTools: []string{"*"}, RequiredScopeKeys: []string{"case_id"},
		AllowedRunStates: []policy.RunState{policy.RunActive},
	}
	if diff := cmp.Diff([]policy.Lane{lane}, set.Lanes); diff != "" {
		t.Errorf("lanes (-want +got):\n%s", diff)
	}
	entry := policy.Entry{
		ToolName: "a", Description: "d", Enabled: true, Idempotent: true, TimeoutDefaultMS: 1,
		AllowedLanes: []string{"default"}, RequiredScopeKeys: []string{}, ProhibitedFlags: []string{"force"},
		Versions: "^1.2",
	}
	if diff := cmp.Diff([]policy.Entry{entry}, set.Entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	v, sum := set.Versions(), sha256.Sum256(small().Lanes)
	if v != small().Versions() || v.Lanes != hex.EncodeToString(sum[:]) || v.Roles == v.Lanes {
		t.Errorf("versions %+v", v)
	}
}

// Each malformed document is refused with file, line, column and fix. testdata/malformed.golden has all problems.
func TestMalformed(t *testing.T) {
	cases, err := txtar.ParseFile("testdata/malformed.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, c := range cases.Files {
		document, _, _ := strings.Cut(c.Name, ":")
		_, err := policy.Parse(with(document, string(c.Data)))
		problems, ok := errors.AsType[tool.Problems](err)
		if !ok {
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
	golden(t, "testdata/malformed.golden", all.String())
}

// golden compares a text with a file, or writes the file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got), -update writes it:\n%s", name, diff)
	}
}

// The problems of all three documents are reported at once.
func TestAllDocumentsAtOnce(t *testing.T) {
	_, err := policy.Parse(policy.Documents{
		Roles: []byte("a"), Lanes: []byte("lanes: 1"), ToolRegistry: []byte("tools: []\n"),
	})
	problems, _ := errors.AsType[tool.Problems](err)
	if len(problems) != 2 || problems[0].File != policy.RolesFile || problems[1].File != policy.LanesFile {
		t.Errorf("problems %v", err)
	}
}

// A set has at most 2 MiB.
func TestTooLarge(t *testing.T) {
	d := small()
	d.Lanes = append(d.Lanes, []byte("#"+strings.Repeat("x", policy.MaxSet))...)
	if _, err := policy.Parse(d); err == nil || !strings.Contains(err.Error(), "larger than 2 MiB together") {
		t.Errorf("parsed: %.200v", err)
	}
	files := folder(d)
	_, err := policy.ReadFolder(files)
	if err == nil || !strings.Contains(err.Error(), "policy/lanes.yaml: the documents") {
		t.Errorf("read: %.200v", err)
	}
}

func TestReadFolder(t *testing.T) {
	d := small()
	files := folder(d)
	if got, err := policy.ReadFolder(files); err != nil || got.Versions() != d.Versions() {
		t.Errorf("read %v", err)
	}
	delete(files, policy.RolesFile)
	files[policy.LanesFile] = &fstest.MapFile{Mode: os.ModeDir}
	_, err := policy.ReadFolder(files)
	problems, _ := errors.AsType[tool.Problems](err)
	if len(problems) != 2 || !strings.Contains(err.Error(), "policy init") || !strings.Contains(err.Error(), "regular") {
		t.Errorf("problems of a folder without documents: %v", err)
	}
}

// Another implementation of JSON Schema compiles the published schemas. Each field says its state and its source.
func TestPublishedSchemas(t *testing.T) {
	for _, d := range policy.AllDocuments() {
		var schema google.Schema
		if err := json.Unmarshal(d.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		if _, err := schema.Resolve(nil); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
		fields, err := d.Fields()
		if err != nil || len(fields) < 3 {
			t.Fatalf("%s: %d fields, %v", d.Name, len(fields), err)
		}
		for _, f := range fields {
			if f.State == "" || f.Source == "" || f.Description == "" {
				t.Errorf("%s: %+v does not say its state, its source and what it means", d.Name, f)
			}
		}
	}
}

// FuzzRoles parses sets with other roles.
func FuzzRoles(f *testing.F) { fuzz(f, "roles", string(small().Roles)) }

// FuzzLanes parses sets with other lanes.
func FuzzLanes(f *testing.F) { fuzz(f, "lanes", string(small().Lanes)) }

// FuzzToolRegistry parses sets with another registry.
func FuzzToolRegistry(f *testing.F) { fuzz(f, "tools", string(small().ToolRegistry)) }

// fuzz parses documents. Each is parsed, or refused with a fix for each problem.
func fuzz(f *testing.F, document, seed string) {
	cases, err := txtar.ParseFile("testdata/malformed.txtar")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	for _, c := range cases.Files {
		if strings.HasPrefix(c.Name, document) {
			f.Add(string(c.Data))
		}
	}
	writers := manifests(call.SideEffectful, "a", "b", "fs.write")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := policy.Parse(with(document, text))
		problems, ok := errors.AsType[tool.Problems](err)
		if err != nil && !ok {
			t.Fatal(err)
		}
		all, err := policy.Lint(with(document, text), writers)
		if err != nil || len(all) < len(problems) {
			t.Fatalf("%d problems, and Lint has %d: %v", len(problems), len(all), err)
		}
		for _, p := range problems {
			if p.Message == "" || p.Hint == "" || strings.ContainsAny(p.String(), "\n\r") {
				t.Errorf("problem %q", p.String())
			}
		}
	})
}
