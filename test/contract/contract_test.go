package contract

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const document = "../../docs/tool_contract.md"

// plain replaces the characters of the source that are not ASCII.
var plain = strings.NewReplacer("\u2011", "-", "\u201c", `"`, "\u201d", `"`, "\u2019", "'", "\u2192", "->")

// leads are the blocks of the source that state nothing themselves: headings of lists, and the date.
var leads = []string{
	"Last updated: 2025-10-16",
	"Design goal\nA tool call must always resolve in one of four outcomes within its deadline:",
	"Rules", "The system (runtime + scheduler + infra) guarantees:", "The calling agent guarantees:", "2. **Pre-flight**",
	"Each code MUST provide:", "For non-idempotent actions, the tool must implement:", "`request.json`", "`response.json`",
}

// block is a heading, a paragraph, an item of a list, or a fenced text, with the lines of Toolbus that follow it.
type block struct {
	line        int // of its first line
	text        string
	state, test string
}

// isClause reports whether the block states something that Toolbus can keep or break.
func (b block) isClause() bool {
	return !strings.HasPrefix(b.text, "#") && !slices.Contains(leads, b.text)
}

var (
	item  = regexp.MustCompile(`^ *(\*|\d+\.) `)
	state = regexp.MustCompile(`^ *- State: (.*)$`)
	test  = regexp.MustCompile(`^ *- Test: (.*)$`)
	known = regexp.MustCompile(`^(enforced|(partly|later) - [a-zA-Z].*[^.])$`)
	named = regexp.MustCompile("^`((?:Test|Fuzz)[A-Za-z0-9]+)` in (?:`([a-z0-9_/]+)`|the root)$")
)

// blocksOf splits a text into its blocks. Lines that begin with > are those of Toolbus.
func blocksOf(t *testing.T, text string) (all []block) {
	t.Helper()
	open, fenced := false, false // open: the next line continues the last block
	for n, line := range strings.Split(text, "\n") {
		fence := strings.HasPrefix(line, "```")
		switch m := []([]string){state.FindStringSubmatch(line), test.FindStringSubmatch(line)}; {
		case fenced || open && line != "" && !fence && m[0] == nil && m[1] == nil && !item.MatchString(line) &&
			line[0] != '#':
			all[len(all)-1].text += "\n" + line
			if fenced && fence {
				open, fenced = false, false
			}
		case line == "" || line[0] == '>':
			open = false
		case m[0] != nil || m[1] != nil:
			open = false
			all[len(all)-1].note(t, n+1, m[0], m[1])
		default:
			all, open, fenced = append(all, block{line: n + 1, text: line}), line[0] != '#', fence
		}
	}
	return all
}

// note adds a line of Toolbus to the block: a State, or the Test that follows it.
func (b *block) note(t *testing.T, line int, state, test []string) {
	t.Helper()
	switch {
	case state != nil && b.state == "" && b.test == "":
		b.state = state[1]
	case test != nil && b.state != "" && b.test == "":
		b.test = test[1]
	default:
		t.Errorf("line %d: State and Test follow a clause once, in this order", line)
	}
}

func blocksIn(t *testing.T, file string) []block {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if file == document {
		for i, c := range text {
			if c > '~' || c < ' ' && c != '\n' {
				t.Fatalf("%s: byte %d is %q, which is not printable ASCII", file, i, c)
			}
		}
	}
	return blocksOf(t, plain.Replace(string(text)))
}

// The document has all blocks of its source in their words and their order, and each clause has a State and a Test.
func TestContract(t *testing.T) {
	want, have := blocksIn(t, "testdata/tool_contract.txt"), blocksIn(t, document)
	for i := range min(len(want), len(have)) {
		if want[i].text != have[i].text {
			t.Fatalf("%s:%d: it says\n%s\nwhere the source says\n%s", document, have[i].line, have[i].text, want[i].text)
		}
	}
	if len(want) != len(have) || len(want) < 130 {
		t.Fatalf("%d blocks, and %d in the source", len(have), len(want))
	}
	for _, b := range have {
		switch {
		case !b.isClause() && b.state+b.test != "":
			t.Errorf("%s:%d: this is no clause: %s", document, b.line, b.text)
		case b.isClause() && (!known.MatchString(b.state) || b.test == ""):
			t.Errorf("%s:%d: State is %q and Test %q of: %s", document, b.line, b.state, b.test, b.text)
		case b.isClause() && strings.HasPrefix(b.state, "later") != (b.test == "none yet"):
			t.Errorf("%s:%d: the state is %q, and the test %q: %s", document, b.line, b.state, b.test, b.text)
		}
	}
}

// testsOf returns the names of tests by folder that the document names.
func testsOf(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, b := range blocksIn(t, document) {
		if b.test == "" || b.test == "none yet" {
			continue
		}
		for name := range strings.SplitSeq(b.test, ", ") {
			m := named.FindStringSubmatch(name)
			if m == nil {
				t.Errorf("%s:%d: %q names no test", document, b.line, name)
				continue
			}
			all[m[2]] = append(all[m[2]], m[1])
		}
	}
	return all
}

var declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]+)\(\w+ \*testing\.[TF]\)`)

// The packages have every test that the document names.
func TestNamedTestsExist(t *testing.T) {
	for folder, tests := range testsOf(t) {
		files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]bool{}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllSubmatch(text, -1) {
				have[string(m[1])] = true
			}
		}
		for _, name := range tests {
			if !have[name] {
				t.Errorf("%q has no test %s, which %s names", folder, name, document)
			}
		}
	}
}
