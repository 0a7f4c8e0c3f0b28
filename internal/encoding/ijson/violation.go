package ijson

import (
	"strings"
	"unicode/utf8"
)

// Limits of a JSON text, and of the violations that are listed.
const (
	// MaxDepth is the deepest nesting of arrays and objects.
	MaxDepth = 64
	// MaxName is the largest length of the name of a member, in bytes.
	MaxName = 1024
	// MaxInteger is the largest integer that every JSON library reads exactly (RFC 7493). The smallest is -MaxInteger.
	MaxInteger = 1<<53 - 1

	// MaxViolations is the largest number of violations in one error. A check lists one more than that if it finds more,
	// and then stops.
	MaxViolations = 100
	// MaxViolationText is the largest length of the message or pointer of a violation, in bytes.
	MaxViolationText = 256
)

// Violation is one broken rule: a JSON pointer to the value, the name of the rule, and what the rule requires.
type Violation struct {
	Pointer string `json:"pointer"`
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// NewViolation returns a violation. It cuts its texts to MaxViolationText and replaces invalid UTF-8.
func NewViolation(pointer, rule, message string) Violation {
	return Violation{
		Pointer: Clip(strings.ToValidUTF8(pointer, "�"), MaxViolationText),
		Rule:    rule,
		Message: Clip(strings.ToValidUTF8(message, "�"), MaxViolationText),
	}
}

// Clip cuts s to at most n bytes, between two characters, and ends a cut text with an ellipsis.
func Clip(s string, n int) string {
	const mark = "…"
	if len(s) <= n {
		return s
	}
	cut := n - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}
