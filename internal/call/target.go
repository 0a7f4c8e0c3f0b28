package call

import (
	"encoding/hex"
	"slices"
	"strings"
	"unicode"
)

// WriteTargets are the targets to which a tool may write, see [Within]. An empty list allows no target.
type WriteTargets []string

// AnyTarget is the write target that allows every target.
const AnyTarget = "*"

// Allow reports whether the tool may write to a target, as side_effects[].target names it.
func (t WriteTargets) Allow(target string) bool {
	return slices.ContainsFunc(t, func(of string) bool { return of == AnyTarget || Within(of, target) })
}

// Within reports whether a target is the target of, or lies below it: its name goes on after of with a slash, or of
// ends with a slash or a colon. Both names are normalised as RFC 3986 §6.2.2 does. A target with a control character
// or a member ".." in any number of encodings may lead anywhere, so it lies nowhere.
func Within(of, target string) bool {
	if strings.ContainsFunc(target, unicode.IsControl) || climbs(target) {
		return false
	}
	of = normalTarget(of)
	rest, below := strings.CutPrefix(normalTarget(target), of)
	if !below || of == "" || rest == "" {
		return below && of != ""
	}
	return strings.ContainsAny(of[len(of)-1:], "/:") || strings.ContainsAny(rest[:1], "/?#")
}

// climbs reports whether a name has a member ".." by itself, or after its percent-encodings are decoded, or those of
// the result, and so on.
func climbs(name string) bool {
	for {
		members := strings.FieldsFunc(name, func(c rune) bool { return strings.ContainsRune(`/\?#`, c) })
		if slices.Contains(members, "..") {
			return true
		}
		decoded := unescape(name, func(byte) bool { return true })
		if len(decoded) == len(name) {
			return false
		}
		name = decoded
	}
}

// unescape decodes the percent-encodings of those bytes that decode selects, and writes the others in upper case.
func unescape(name string, decode func(byte) bool) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(name, "%")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		c, err := hex.DecodeString(after[:min(2, len(after))])
		switch {
		case err != nil || len(c) != 1:
			b.WriteByte('%')
			name = after
			continue
		case decode(c[0]):
			b.WriteByte(c[0])
		default:
			b.WriteString("%" + strings.ToUpper(after[:2]))
		}
		name = after[2:]
	}
}

// unreserved reports whether a byte means the same in a URI as its percent-encoding (RFC 3986 §2.3).
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// normalTarget returns the name of a target in normal form. A name without a scheme is a path.
func normalTarget(name string) string {
	name = strings.ReplaceAll(unescape(name, unreserved), `\`, "/")
	scheme, rest, found := strings.Cut(name, ":")
	if !found || strings.ContainsRune(scheme, '/') {
		return cleanPath(name)
	}
	scheme = strings.ToLower(scheme)
	after, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return scheme + ":" + cleanPath(rest)
	}
	end := strings.IndexAny(after+"/", "/?#")
	host := strings.ToLower(after[:end])
	if scheme == "file" && (host == "" || host == "localhost") {
		return "file:" + cleanPath(after[end:])
	}
	return scheme + "://" + host + strings.ReplaceAll(after[end:], "/./", "/") // two slashes may differ from one
}

// cleanPath removes repeated slashes and members "." from a path. It keeps a slash at its end.
func cleanPath(name string) string {
	parts := strings.SplitAfter(name, "/")
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "." || part == "./" })
	kept := parts[:0]
	for _, part := range parts {
		if part != "/" || len(kept) == 0 {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "")
}
