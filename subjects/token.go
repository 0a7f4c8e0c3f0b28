package subjects

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	maxToken   = 100 // longer tokens are digested
	keptPrefix = 40  // bytes of a digested token that stay readable
	digestMark = "_h"
	digestLen  = 32 // hex digits
	emptyToken = "_e"
)

// ErrDigested means that a token holds only a digest of its name, because the name was too long.
var ErrDigested = errors.New("token holds only a digest of the name")

var errToken = errors.New("not a canonical token")

// Token encodes s as one token of at most 100 bytes (see the package comment). Different strings have different tokens.
func Token(s string) string {
	if s == "" {
		return emptyToken
	}
	t := escape(s, '_')
	if len(t) <= maxToken {
		return t
	}
	sum := sha256.Sum256([]byte(s))
	return t[:boundary(t)] + digestMark + hex.EncodeToString(sum[:digestLen/2])
}

// Legible reports whether [ParseToken] can decode the token of name: the name is short enough not to be digested.
func Legible(name string) bool {
	n := len(name)
	for i := range len(name) {
		if !kept(name[i], '_') {
			n += 2
		}
	}
	return n <= maxToken
}

// appendToken appends Token(s) to b. It usually makes no separate string.
func appendToken(b []byte, s string) []byte {
	if s == "" || len(s) > maxToken {
		return append(b, Token(s)...)
	}
	start := len(b)
	if b = appendEscaped(b, s, '_'); len(b)-start > maxToken {
		b = append(b[:start], Token(s)...)
	}
	return b
}

// ParseToken is the inverse of [Token]. The error is [ErrDigested] for a digested token. It is another error for a
// string that Token does not return.
func ParseToken(token string) (string, error) {
	if token == emptyToken {
		return "", nil
	}
	if digested(token) {
		return "", ErrDigested
	}
	s, ok := unescape(token, '_')
	if !ok || s == "" || len(token) > maxToken {
		return "", fmt.Errorf("%w: %.120q", errToken, token)
	}
	return s, nil
}

// boundary returns the length of the prefix of the escaped t to keep: keptPrefix, or less if that would cut an escape.
func boundary(t string) int {
	for back := range 2 {
		if t[keptPrefix-1-back] == '_' {
			return keptPrefix - 1 - back
		}
	}
	return keptPrefix
}

// digested reports whether token has the form of a digested token.
func digested(token string) bool {
	cut := len(token) - digestLen - len(digestMark)
	if cut < keptPrefix-2 || cut > keptPrefix || token[cut:cut+len(digestMark)] != digestMark {
		return false
	}
	_, ok := unescape(token[:cut], '_')
	return ok && strings.Trim(token[cut+len(digestMark):], hexDigits) == ""
}

const hexDigits = "0123456789abcdef"

// escape keeps letters, digits and "-", and "_" unless it is the mark. It replaces every other byte by the mark and two
// hex digits.
func escape(s string, mark byte) string {
	if allKept(s, mark) {
		return s
	}
	return string(appendEscaped(make([]byte, 0, 3*len(s)), s, mark))
}

func appendEscaped(b []byte, s string, mark byte) []byte {
	for i := range len(s) {
		if c := s[i]; kept(c, mark) {
			b = append(b, c)
		} else {
			b = append(b, mark, hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return b
}

// unescape is the inverse of escape; ok is false for anything that escape does not produce.
func unescape(t string, mark byte) (s string, ok bool) {
	if strings.IndexByte(t, mark) < 0 {
		return t, allKept(t, mark)
	}
	out := make([]byte, 0, len(t))
	for i := 0; i < len(t); i++ {
		c := t[i]
		if c == mark {
			if c, ok = unhex(t[i+1:]); !ok || kept(c, mark) {
				return "", false
			}
			i += 2
		} else if !kept(c, mark) {
			return "", false
		}
		out = append(out, c)
	}
	return string(out), true
}

func unhex(s string) (byte, bool) {
	if len(s) < 2 {
		return 0, false
	}
	hi, lo := strings.IndexByte(hexDigits, s[0]), strings.IndexByte(hexDigits, s[1])
	return byte(hi<<4 | lo), hi >= 0 && lo >= 0
}

func allKept(s string, mark byte) bool {
	for i := range len(s) {
		if !kept(s[i], mark) {
			return false
		}
	}
	return true
}

func kept(c, mark byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
		return true
	}
	return c == '_' && mark != '_'
}

// word encodes a name that Toolbus fixes. It keeps underscores.
func word(s string) string {
	if s == "" {
		return "=e"
	}
	return escape(s, '=')
}

func parseWord(t string) (string, error) {
	if t == "=e" {
		return "", nil
	}
	s, ok := unescape(t, '=')
	if !ok || s == "" {
		return "", fmt.Errorf("%w: %.120q", errToken, t)
	}
	return s, nil
}
