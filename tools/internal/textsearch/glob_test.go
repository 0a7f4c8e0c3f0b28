package textsearch

import (
	"regexp"
	"strings"
	"testing"
)

// TestIgnored has the rules of gitignore(5); every row was checked against git 2.39.
func TestIgnored(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rules   string
		ignored string // paths by spaces; a slash at the end makes a folder
		kept    string
	}{
		{"foo", "foo foo/ a/foo a/b/foo/", "food a/afoo"},
		{"foo/", "foo/ a/foo/", "foo a/foo"},
		{"/foo", "foo foo/", "a/foo"},
		{"a/foo", "a/foo", "b/a/foo foo"},
		{"a/foo/", "a/foo/", "a/foo b/a/foo/"},
		{"*.log", "x.log .log a/x.log", "x.logs log"},
		{"*.log\n!keep.log", "x.log", "keep.log a/keep.log"},
		{"!keep.log\n*.log", "x.log keep.log", ""},
		{"a/*", "a/x a/b/", "b/a/x"},
		{"**/foo", "foo a/foo a/b/foo", "afoo"},
		{"a/**", "a/x a/b/x", "a a/"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "b a/x ab"},
		{"a/***/b", "a/b a/x/b", "b"},
		{"a*b?c", "axxbyc abyc a/abxc", "abc axb/c"},
		{"[abc].x", "a.x c.x", "d.x ab.x"},
		{"[!abc].x", "d.x", "a.x .x"},
		{"[^a-c].x", "d.x", "b.x"},
		{"[a-c]x[]]", "bx]", "dx] bx"},
		{"[[:digit:]]x", "1x", "ax"},
		{"a[+-9]b", "a-b a0b", "a/b"},
		{"[z-a]", "z", "a m"},
		{"[]-a]", "] ^ a", "- b"},
		{"[a-]", "a -", "b"},
		{`\!x`, "!x", "x"},
		{`\#x`, "#x", "x"},
		{"# x\n\n  \n", "", "x #"},
		{`\*`, "*", "a"},
		{`a\\b`, `a\b`, "ab"},
		{`a\`, "", `a a\`},
		{"[a", "", "a [a"},
		{"foo  ", "foo", ""},
		{"foo\r\nbar\r\n", "foo bar", ""},
		{"/", "", "a a/"},
		{"a.b", "a.b", "axb"},
		{"ü*", "über", "u"},
	} {
		rules := []ignores{{folder: ".", rules: parseIgnores(test.rules)}}
		for list, want := range map[string]bool{test.ignored: true, test.kept: false} {
			for _, path := range strings.Fields(list) {
				name, folder := strings.CutSuffix(path, "/")
				if got := ignored(rules, name, folder); got != want {
					t.Errorf("%q: %s is ignored: %v", test.rules, path, got)
				}
			}
		}
	}
}

func TestIgnoredBelow(t *testing.T) {
	t.Parallel()
	rules := []ignores{
		{folder: ".", rules: parseIgnores("*.log\n/a/b/c")},
		{folder: "a", rules: parseIgnores("!keep.log\n/b/d")},
	}
	for path, want := range map[string]bool{
		"a/x.log": true, "a/keep.log": false, "a/b/keep.log": false, "a/b/c": true, "a/b/d": true, "a/x": false,
	} {
		if got := ignored(rules, path, false); got != want {
			t.Errorf("%s is ignored: %v", path, got)
		}
	}
}

func TestNewGlobs(t *testing.T) {
	t.Parallel()
	g, err := newGlobs([]string{"*.go", "!*_test.go", "docs/**", "!vendor/"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"a.go": true, "a/b.go": true, "a_test.go": false, "docs/x": true, "x": false,
		"vendor": false} {
		if got := g.includeFile(path); got != want {
			t.Errorf("%s is included: %v", path, got)
		}
	}
	if !g.excludeFolder("a/vendor") || g.excludeFolder("docs") {
		t.Error("folders")
	}
	for _, bad := range []string{"", "!", "/", "[a", `a\`, "[[:nope:]]", "[[:alpha"} {
		if _, err := newGlobs([]string{bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestHasUpper(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]bool{
		"": false, "abc": false, "aBc": true, "É": true, `\W\pL\p{Greek}\S`: false, `\\W`: true,
		`(?P<Name>x)(?U)(?<N>y)`: false, `a\`: false,
	} {
		if got := hasUpper(pattern, false); got != want {
			t.Errorf("%q: %v", pattern, got)
		}
	}
	if !hasUpper(`\W`, true) {
		t.Error("a text has no escapes")
	}
}

// FuzzRule holds that every glob is either refused or works, and that a name without anything
// special matches itself.
func FuzzRule(f *testing.F) {
	for _, seed := range []string{"*.go", "/a/**/b/", "!x", "[!a-z]", `\[`, "[[:alpha:]-]", "[]", "***", "é?",
		"[\xff-é]"} {
		f.Add(seed, "a/b.go")
	}
	f.Fuzz(func(t *testing.T, glob, path string) {
		r, err := parseRule(glob)
		if err == nil {
			r.re.MatchString(path)
		}
		if plain := regexp.MustCompile(`^[\w.]+$`); err == nil && plain.MatchString(glob) && !r.re.MatchString("x/"+glob) {
			t.Errorf("%q does not match itself", glob)
		}
		parseIgnores(glob)
	})
}

// FuzzSearch holds that what is found is there.
func FuzzSearch(f *testing.F) {
	f.Add("needle", "a\nneedle\r\n", true)
	f.Add("^$", "\n\n", false)
	f.Add(`\xff|é`, "\xff\né", false)
	f.Fuzz(func(t *testing.T, text, data string, regex bool) {
		p, err := newPattern(Input{Pattern: text, Regex: &regex})
		if err != nil {
			return
		}
		lines := strings.Split(data, "\n")
		for from := 0; ; {
			start, end, at, ok := p.next([]byte(data), from)
			if !ok {
				return
			}
			if line := data[start:end]; line != lines[strings.Count(data[:start], "\n")] || at[1] > len(line) {
				t.Fatalf("%q in %q: no line is %q", text, data, line)
			}
			excerpt([]byte(data[start:end]), at[0])
			from = end + 1
		}
	})
}
