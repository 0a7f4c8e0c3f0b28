package textsearch

import (
	"bytes"
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"

	"github.com/seed-018f16cc/toolbus/program"
)

// pattern finds the lines that match.
type pattern struct {
	re *regexp.Regexp
	// literal is what every match starts with, if that is known: lines without it are skipped
	// without asking re.
	literal []byte
}

func newPattern(in Input) (pattern, error) {
	expression := in.Pattern
	literal := in.Regex != nil && !*in.Regex
	if literal {
		expression = regexp.QuoteMeta(expression)
	}
	if in.Case == "insensitive" || (in.Case == "" || in.Case == "smart") && !hasUpper(in.Pattern, literal) {
		expression = "(?i)" + expression
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return pattern{}, badPattern("pattern", err)
	}
	prefix, _ := re.LiteralPrefix()
	return pattern{re, []byte(prefix)}, nil
}

// badPattern says what is wrong, without the pattern itself.
func badPattern(field string, err error) error {
	reason := err.Error()
	var wrong *syntax.Error
	if errors.As(err, &wrong) {
		reason = wrong.Code.String()
	}
	return &program.Error{
		Code: "bad_pattern", Message: "the " + field + " is not valid: " + reason,
		Details: map[string]any{"field": field}, Effect: program.EffectNone,
	}
}

// silent is what may have upper-case letters in a regular expression without asking for any:
// classes and escapes (\W, \pL), names of groups and flags.
var silent = regexp.MustCompile(`\\(?:[pP](?:\{[^}]*\}|.)|(?s:.))|\(\?(?:P?<\w+>|[imsU-]+)`)

// hasUpper says whether a pattern asks for an upper-case letter.
func hasUpper(text string, literal bool) bool {
	if !literal {
		text = silent.ReplaceAllString(text, "")
	}
	return strings.ContainsFunc(text, unicode.IsUpper)
}

// next returns where the next line at or after from starts and ends and where in it the match
// is, or ok false. The line is without its end.
func (p pattern) next(data []byte, from int) (start, end int, at []int, ok bool) {
	for start = from; start < len(data); start = end + 1 {
		if len(p.literal) > 0 {
			skip := bytes.Index(data[start:], p.literal)
			if skip < 0 {
				return 0, 0, nil, false
			}
			start += bytes.LastIndexByte(data[start:start+skip], '\n') + 1
		}
		end = lineEnd(data, start)
		if at = p.re.FindIndex(trimReturn(data[start:end])); at != nil {
			return start, end, at, true
		}
	}
	return 0, 0, nil, false
}

// lineEnd is where the line that starts at start ends: at its '\n' or at the end of data.
func lineEnd(data []byte, start int) int {
	if n := bytes.IndexByte(data[start:], '\n'); n >= 0 {
		return start + n
	}
	return len(data)
}

func trimReturn(line []byte) []byte { return bytes.TrimSuffix(line, []byte("\r")) }
