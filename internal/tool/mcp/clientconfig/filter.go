package clientconfig

import (
	"regexp"
	"strings"
)

// Filter selects the tools of a server that a client shows. The zero value selects all.
type Filter struct {
	only   []string
	listed bool // the client shows only the tools in only, even if that is empty
	but    []string
	prefix string // prefix of the full names in full
	full   []string
}

// Off reports whether the client hides the tool with this name at its server.
func (f Filter) Off(tool string) bool {
	return matches(f.but, tool) || f.listed && !matches(f.only, tool) ||
		matches(f.full, f.prefix+notWord.ReplaceAllString(tool, "_"))
}

// matches reports whether a list names a tool. A * stands for any characters. Gemini CLI also writes name(argument).
func matches(list []string, tool string) bool {
	for _, one := range list {
		if one == tool || strings.HasPrefix(one, tool+"(") {
			return true
		}
		if strings.Contains(one, "*") {
			like := strings.ReplaceAll(regexp.QuoteMeta(one), `\*`, ".*")
			if regexp.MustCompile("(?s)^" + like + "$").MatchString(tool) {
				return true
			}
		}
	}
	return false
}
