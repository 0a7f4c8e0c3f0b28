package tool_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

var update = flag.Bool("update", false, "write docs/manifest.md")

// The page about manifests is made from the schema.
func TestManifestPage(t *testing.T) {
	const name = "../../docs/manifest.md"
	fields, err := tool.Fields()
	if err != nil {
		t.Fatal(err)
	}
	page := manifestPage(fields)
	if *update {
		if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page, string(got)); diff != "" {
		t.Errorf("docs/manifest.md (-want +got): go test ./internal/tool -run TestManifestPage -update\n%s", diff)
	}
}

func manifestPage(fields []tool.Field) string {
	var b, aliases strings.Builder
	b.WriteString(pageIntro)
	for _, f := range fields {
		if f.State == "" && !strings.HasSuffix(f.Type, "object") {
			continue
		}
		name := strings.ReplaceAll(f.Name, ".[]", "[]")
		state := f.State
		if state == "" {
			state = "see its members"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", name, strings.ReplaceAll(f.Type, " | ", ", "), code(f.Default),
			state, f.Source, f.Description)
		for _, alias := range f.Aliases {
			fmt.Fprintf(&aliases, "| `%s` | `%s` |\n", alias, f.Name)
		}
	}
	b.WriteString(pageAliases)
	b.WriteString(aliases.String())
	b.WriteString(pageRest)
	return b.String()
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

const pageIntro = `# The manifest of a tool

The tables are generated from ` + "`internal/tool/manifest.json`" + `, the schema that the loader uses:
` + "`go test ./internal/tool -run TestManifestPage -update`" + ` writes this page. ` + "`toolbus tools schema`" + ` prints the schema for editors.

A tool is a folder with a ` + "`tool.yaml`" + `. The name of the folder is the tool id (` + "`search.web`" + `) or its encoded form
(` + "`search_2eweb`" + `), which module archives need for ids with a colon. ` + "`toolbus tools lint DIR`" + ` checks a folder of tools, and lists all
problems at once. Warnings never change its exit code.

## Fields

*State* says what Toolbus does with a field:

- *enforced*: a call or a tool that breaks it is refused, ended or changed.
- *recorded*: Toolbus keeps it and shows it to callers and operators.
- *declared only*: Toolbus checks its form and shows it. It has no effect yet; ` + "`lint`, `tools show` and `doctor`" + ` say so.

*Source* names the section of the source contracts: 000 is the tool contract, 001 the living contracts, 002 the canonical fields, 003 the gateway
contract. Numbers have inclusive bounds.

| Field | Type | Default | State | Source | Meaning |
|---|---|---|---|---|---|
`

const pageAliases = `
## Other keys

Canonical keys are snake_case. Each key here is another key for one field. A field under two keys is a problem. Beside ` + "`tool_id`" + `, the key
` + "`name`" + ` is the name in MCP, as builds before ` + "`mcp_name`" + ` wrote it.

| Key | Field |
|---|---|
`

const pageRest = `
` + "`enabled: true`" + ` is ` + "`status: active`, and `false` is `disabled`. `idempotent: true` is `determinism: idempotent`, and `false` is `side_effectful`" + `.

## Functions and schemas

A tool declares ` + "`functions`" + `, each with two schema files, or it has one ` + "`schema`" + `, which then holds for every function: the tool receives the
name of the function in ` + "`fn`" + `. A call that names no function calls ` + "`run`" + `. A schema of a whole envelope, with ` + "`call_id` and `input` or `output`" + ` among its
properties, is reduced to the part below ` + "`input` or `output`" + `.

Without ` + "`transport`" + `, a tool is a program. Without ` + "`endpoint`" + `, the program is ` + "`./bin/TOOL_ID`" + `. If that file is missing, the tool is listed, and its
calls end with ` + "`S-TOOL-UNAVAILABLE`" + `, effect none.

## Digests

` + "`digest`" + ` names the artifact. If it is a SHA-256 and differs from the program, no call runs: ` + "`C-CONTRACT-DIGEST`" + `. Any other text is not compared,
and lint warns of it. The *build digest* is another one: Toolbus computes it from the manifest, the schemas and the program, and names it in outcomes,
records and ` + "`tools show`" + `. Comments, order and layout of the YAML do not change it.

## errors.md

` + "`errorspec`" + ` names a Markdown file. Each section of level 2 is one error, with its name as heading, a table with one row, and free text:

` + "```" + `markdown
## rate_limited

| Class | HTTP status | Retryable | Meaning | Fix |
|---|---|---|---|---|
| R-UPSTREAM | 429 | yes | The search service limits its callers | wait for retry_after_ms |

The quota is per key and hour.
` + "```" + `

Without ` + "`errors`" + ` in the manifest, the tables declare the errors. With it, lint fails where a table differs, and ` + "`toolbus tools lint --fix`" + ` writes the
tables. It never changes free text. A file without sections declares no errors. A cell is plain text; a vertical bar in it is written ` + "`\\|`" + `.

## Examples

An example has an ` + "`input`, and at most one of `output` and `error`" + `. The loader checks inputs and outputs against the schemas. The contract tests of
a tool run both kinds.
`
