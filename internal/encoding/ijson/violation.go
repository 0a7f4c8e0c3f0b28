package ijson

import (
	"strings"
	"unicode/utf8"
)

// Limits of a JSON text, and of what is said about one. Reaching one is a precise error.
const (
	// MaxDepth is how deep arrays and objects may be nested.
	MaxDepth = 64
	// MaxName is the longest name of an object member, in bytes.
	MaxName = 1024
	// MaxInteger is the largest integer that survives every JSON library (RFC 7493); the
	// smallest is -MaxInteger.
	MaxInteger = 1<<53 - 1

	// MaxViolations is how many broken rules one error lists.
	MaxViolations = 100
	// MaxViolationText is the longest message or pointer of a violation, in bytes.
	MaxViolationText = 256
)

// Violation is one broken rule: where (a JSON pointer), which, and what it demands.
type Violation struct {
	Pointer string `json:"pointer"`
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// NewViolation returns a violation whose texts are bounded and clean.
func NewViolation(pointer, rule, message string) Violation {
	return Violation{
		Pointer: Clip(strings.ToValidUTF8(pointer, "�"), MaxViolationText),
		Rule:    rule,
		Message: Clip(strings.ToValidUTF8(message, "�"), MaxViolationText),
	}
}

// Clip cuts s to at most n bytes, not inside a character, and marks the cut.
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
