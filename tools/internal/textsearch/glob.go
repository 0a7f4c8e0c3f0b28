package textsearch

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// rule is one pattern of a .gitignore or of the input's glob.
type rule struct {
	re      *regexp.Regexp
	negated bool
	folders bool // matches folders only
}

// ignores are the rules of one .gitignore.
type ignores struct {
	folder string // where it lies
	rules  []rule
}

// parseIgnores reads a .gitignore. A line that is no valid pattern matches nothing, as in git.
func parseIgnores(text string) []rule {
	var rules []rule
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if r, err := parseRule(trimSpaces(line)); err == nil {
			rules = append(rules, r)
		}
	}
	return rules
}

// trimSpaces removes spaces at the end that are not escaped.
func trimSpaces(line string) string {
	trimmed := strings.TrimRight(line, " ")
	backslashes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if backslashes%2 == 1 && len(trimmed) < len(line) {
		trimmed += " "
	}
	return trimmed
}

// ignored says whether the last rule that matches excludes a path; deeper folders come later.
func ignored(above []ignores, path string, folder bool) bool {
	for i := len(above) - 1; i >= 0; i-- {
		inside := path
		if above[i].folder != "." {
			inside = strings.TrimPrefix(path, above[i].folder+"/")
		}
		if r := lastMatch(above[i].rules, inside, folder); r != nil {
			return !r.negated
		}
	}
	return false
}

func lastMatch(rules []rule, path string, folder bool) *rule {
	for i := len(rules) - 1; i >= 0; i-- {
		if r := &rules[i]; (folder || !r.folders) && r.re.MatchString(path) {
			return r
		}
	}
	return nil
}

// globs are the input's glob patterns.
type globs struct {
	rules    []rule
	positive bool // whether a file has to match one
}

func newGlobs(patterns []string) (globs, error) {
	var g globs
	for _, text := range patterns {
		r, err := parseRule(text)
		if err != nil {
			return globs{}, badPattern("glob", err)
		}
		g.rules = append(g.rules, r)
		g.positive = g.positive || !r.negated
	}
	return g, nil
}

func (g globs) includeFile(path string) bool {
	if r := lastMatch(g.rules, path, false); r != nil {
		return !r.negated
	}
	return !g.positive
}

func (g globs) excludeFolder(path string) bool {
	r := lastMatch(g.rules, path, true)
	return r != nil && r.negated
}

var (
	errEmptyGlob   = errors.New("it is empty")
	errOpenClass   = errors.New("a [ has no ]")
	errOpenEscape  = errors.New(`a \ has nothing after it`)
	errNoSuchClass = errors.New("a class between [ and ] is not valid")
)

// parseRule reads one pattern.
func parseRule(text string) (rule, error) {
	var r rule
	text, r.negated = strings.CutPrefix(text, "!")
	text, r.folders = strings.CutSuffix(text, "/")
	if text == "" {
		return rule{}, errEmptyGlob
	}
	prefix := "^(?:.*/)?"
	if strings.Contains(text, "/") {
		prefix = "^"
	}
	expression, err := translate(strings.TrimPrefix(text, "/"))
	if err != nil {
		return rule{}, err
	}
	r.re, err = regexp.Compile("(?s)" + prefix + expression + "$")
	return r, err
}

// translate makes a regular expression of a glob.
func translate(glob string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(glob); {
		expression, n, err := translateNext(glob[i:], i == 0 || glob[i-1] == '/')
		if err != nil {
			return "", err
		}
		b.WriteString(expression)
		i += n
	}
	return b.String(), nil
}

// translateNext translates the start of glob and returns its length. Two or more stars that are a
// whole part of the path stand for any number of folders.
func translateNext(glob string, startsPart bool) (expression string, length int, err error) {
	stars := len(glob) - len(strings.TrimLeft(glob, "*"))
	anyDepth := stars > 1 && startsPart
	switch {
	case anyDepth && strings.HasPrefix(glob[stars:], "/"):
		return "(?:.*/)?", stars + 1, nil
	case anyDepth && len(glob) == stars:
		return ".+", stars, nil
	case stars > 0:
		return "[^/]*", stars, nil
	case glob[0] == '?':
		return "[^/]", 1, nil
	case glob[0] == '[':
		return translateClass(glob)
	case glob == `\`:
		return "", 0, errOpenEscape
	case glob[0] == '\\':
		return quoteByte(glob[1]), 2, nil
	}
	return quoteByte(glob[0]), 1, nil
}

// quoteByte quotes what means something in a regular expression. The bytes of a longer character
// mean nothing and go through one by one.
func quoteByte(c byte) string {
	if c < 0x80 {
		return regexp.QuoteMeta(string(rune(c)))
	}
	return string([]byte{c})
}

// class is a set of characters: pairs of the first and the last of a range.
type class []rune

// translateClass translates the [class] at the start of glob and returns its length there.
func translateClass(glob string) (expression string, length int, err error) {
	rest := glob[1:]
	negated := rest != "" && (rest[0] == '!' || rest[0] == '^')
	if negated {
		rest = rest[1:]
	}
	var c class
	for first := true; ; first = false {
		if !first && strings.HasPrefix(rest, "]") {
			return c.expression(negated), len(glob) - len(rest) + 1, nil
		}
		if c, rest, err = c.readItem(rest); err != nil {
			return "", 0, err
		}
	}
}

// readItem adds what rest starts with: a named class, a range or a character. Of a range that goes
// backwards only the first character counts, as in git.
func (c class) readItem(rest string) (class, string, error) {
	if strings.HasPrefix(rest, "[:") {
		end := strings.Index(rest, ":]") + len(":]")
		named, err := syntax.Parse("["+rest[:max(end, 0)]+"]", syntax.Perl)
		if end < len("[:a:]") || err != nil {
			return nil, "", errNoSuchClass
		}
		return append(c, named.Rune...), rest[end:], nil
	}
	low, rest, err := readRune(rest)
	if err != nil {
		return nil, "", err
	}
	high := low
	if strings.HasPrefix(rest, "-") && !strings.HasPrefix(rest, "-]") {
		if high, rest, err = readRune(rest[1:]); err != nil {
			return nil, "", err
		}
	}
	return append(c, low, max(low, high)), rest, nil
}

func readRune(text string) (rune, string, error) {
	text = strings.TrimPrefix(text, `\`)
	r, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return 0, "", errOpenClass
	}
	return r, text[size:], nil
}

// expression is the class as a regular expression. It never matches a slash.
func (c class) expression(negated bool) string {
	var b strings.Builder
	write := func(low, high rune) {
		if low <= high {
			fmt.Fprintf(&b, `\x{%x}-\x{%x}`, low, high)
		}
	}
	for i := 0; i < len(c); i += 2 {
		if low, high := c[i], c[i+1]; !negated && low <= '/' && '/' <= high {
			write(low, '/'-1)
			write('/'+1, high)
		} else {
			write(low, high)
		}
	}
	switch {
	case negated:
		return "[^/" + b.String() + "]"
	case b.Len() == 0:
		return `[^\x00-\x{10FFFF}]` // nothing
	}
	return "[" + b.String() + "]"
}
