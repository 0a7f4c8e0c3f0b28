package docs_test

import (
	"cmp"
	goflag "flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const ceilingsFile = "testdata/prose.txt"

var (
	lowerCeilings = goflag.Bool("lower", false, "write the ceilings of TestProse that have fallen")
	listMatches   = goflag.String("list", "", "rule of TestProse whose matches are printed")
)

// rule is one habit that the prose of this repository loses.
type rule struct {
	name    string
	use     string // what to write instead
	kinds   []kind
	matches func(passage) []string
}

// proseRules are the habits that a program can find without judging legitimate uses.
func proseRules() []rule {
	all := []kind{comment, literal, markdown}
	text := []kind{comment, markdown}
	return []rule{
		{"whoever", "name the process or person", all, phrase(`\b([Ww]ho(m)?ever|whom)\b`, "")},
		{"told", "say which process sends, returns or logs it", all,
			phrase(`\b(is|are|was|were|be|been) told\b`, `told apart`)},
		{"none", "write not, or name what is missing", all,
			phrase(`\b(is|are|was|were) none\b|none is none|none of (ours|Toolbus)`, `effect is none`)},
		{"there-is", "name the thing", all, phrase(`\b(what|all|all that|that) there (is|was|are|were)\b`, "")},
		{"archaic", "write again, recently, or also", all, phrase(`\b(anew|of late|likewise)\b`, "")},
		{"so-many", "name the number, parameter or constant", all, phrase(`\bso (many|much|large|few)\b`, "")},
		{"in-hand", "write running, unanswered, or in progress", all, phrase(`\bin hand\b`, "")},
		{"is-what", "say what the value represents or the function returns", []kind{comment},
			phrase(`(?m)^\w+ (is|are) (what|whose|who|whoever)\b`, "")},
		{"inversion", "begin with the subject", text, inversions},
		{"error-text", "say what is wrong, in plain words", []kind{literal},
			phrase(`\b(is no|are no|none of|whoever|whom|anew|let in|is told|believed|there is no)\b`, `is no longer`)},
		{"long-sentence", fmt.Sprintf("use at most %d words in a sentence", maxWords), text, longSentences},
		{"doc-name", "begin the comment of an exported name with that name", []kind{declaration}, wrongName},
	}
}

// TestProse counts bad habits in comments, string literals and Markdown. A count may not rise above its ceiling. When
// it falls, the ceiling falls with it.
func TestProse(t *testing.T) {
	passages := passagesOf(t)
	if len(passages) < 10_000 {
		t.Fatalf("found only %d passages", len(passages))
	}
	ceilings, counts := readCeilings(t), map[string]int{}
	for _, r := range proseRules() {
		for _, p := range passages {
			if !slices.Contains(r.kinds, p.kind) {
				continue
			}
			for _, m := range r.matches(p) {
				counts[r.name+" "+string(p.kind)]++
				if r.name == *listMatches {
					t.Logf("%s: %s", p.where, m)
				}
			}
		}
		for _, k := range r.kinds {
			checkCeiling(t, r, k, counts[r.name+" "+string(k)], ceilings)
		}
	}
	if *lowerCeilings {
		writeCeilings(t, ceilings)
	}
}

// checkCeiling compares a count with its ceiling, and lowers the ceiling if the flag says so.
func checkCeiling(t *testing.T, r rule, k kind, count int, ceilings map[string]int) {
	t.Helper()
	row := r.name + " " + string(k)
	ceiling, ok := ceilings[row]
	switch {
	case *lowerCeilings && (!ok || count < ceiling):
		ceilings[row] = count
	case !ok:
		t.Errorf("%s has no row %q: write it with -args -lower", ceilingsFile, row)
	case count > ceiling:
		t.Errorf("%s: %d matches, at most %d are allowed: %s. List them with -args -list %s",
			row, count, ceiling, r.use, r.name)
	case count < ceiling:
		t.Errorf("%s: %d matches, %d are allowed: lower the ceiling with "+
			"go test ./test/docs -run TestProse -args -lower", row, count, ceiling)
	}
}

// readCeilings returns the highest count of each rule and kind.
func readCeilings(t *testing.T) map[string]int {
	t.Helper()
	ceilings := map[string]int{}
	data, err := os.ReadFile(ceilingsFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			t.Fatalf("%s: a line is a rule, a kind and a number: %q", ceilingsFile, line)
		}
		n, err := strconv.Atoi(fields[2])
		if err != nil {
			t.Fatal(err)
		}
		ceilings[fields[0]+" "+fields[1]] = n
	}
	return ceilings
}

func writeCeilings(t *testing.T, ceilings map[string]int) {
	t.Helper()
	var lines []string
	for row, n := range ceilings {
		lines = append(lines, fmt.Sprintf("%s %d\n", row, n))
	}
	slices.SortFunc(lines, cmp.Compare[string])
	if err := os.WriteFile(filepath.Clean(ceilingsFile), []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// phrase returns a function that finds a pattern where the allowed pattern does not stand.
func phrase(pattern, allowed string) func(passage) []string {
	find, allow := regexp.MustCompile(pattern), regexp.MustCompile(cmp.Or(allowed, `$^`))
	return func(p passage) []string { return find.FindAllString(allow.ReplaceAllString(p.text, "-"), -1) }
}

// maxWords is the length of a sentence above which it counts as too long.
const maxWords = 35

func longSentences(p passage) (long []string) {
	if p.list || p.table {
		return nil
	}
	for _, words := range sentences(p.text) {
		if len(words) > maxWords {
			long = append(long, strings.Join(words, " "))
		}
	}
	return long
}

func inversions(p passage) (found []string) {
	if p.table {
		return nil
	}
	for _, words := range sentences(p.text) {
		first := []string{"What", "Of", "Nor", "Where"}
		if slices.Contains(first, words[0]) && !strings.HasSuffix(words[len(words)-1], "?") {
			found = append(found, strings.Join(words, " "))
		}
	}
	return found
}

func wrongName(p passage) []string {
	for _, article := range []string{"", "A ", "An ", "The "} {
		if rest, ok := strings.CutPrefix(p.text, article+p.name); ok && !wordFirst.MatchString(rest) {
			return nil
		}
	}
	return []string{p.name}
}

var wordFirst = regexp.MustCompile(`^\w`)

// TestProseRules shows for each rule a text that breaks it and one that does not.
func TestProseRules(t *testing.T) {
	for _, c := range []struct {
		rule, bad, good string
	}{
		{"whoever", "It is given to whoever takes.", "It is passed to the callback."},
		{"told", "The caller is told.", "They can be told apart."},
		{"none", "The count is none.", "The effect is none."},
		{"there-is", "It prints what there is.", "There is a limit."},
		{"archaic", "It is made anew.", "It is made again."},
		{"so-many", "There are so many.", "There are some."},
		{"in-hand", "Calls in hand end.", "Running calls end."},
		{"is-what", "Word is what is said.", "Word is one event."},
		{"inversion", "Of these, one wins.", "What is it?"},
		{"error-text", "the effect is no effect", "it is no longer open"},
		{"long-sentence", strings.Repeat("word ", maxWords+1) + ".", strings.Repeat("word ", maxWords-1) + "word. Next."},
	} {
		for _, r := range proseRules() {
			if r.name != c.rule {
				continue
			}
			if n := len(r.matches(passage{text: c.bad})); n != 1 {
				t.Errorf("%s finds %d matches in %q", c.rule, n, c.bad)
			}
			if m := r.matches(passage{text: c.good}); len(m) != 0 {
				t.Errorf("%s finds %q in %q", c.rule, m, c.good)
			}
		}
	}
	if wrongName(passage{name: "Since", text: "since returns"}) == nil ||
		wrongName(passage{name: "Since", text: "Sincerely"}) == nil ||
		wrongName(passage{name: "Since", text: "Since returns"}) != nil {
		t.Error("doc-name compares wrongly")
	}
}
