package clientconfig

import (
	"regexp"
	"strings"
)

// Filter tells which tools of a server a client shows. The zero value shows all.
type Filter struct {
	only   []string
	listed bool // the client shows only those, even if there are none
	but    []string
	prefix string // of the tools' names in full
	full   []string
}

// Off reports whether the client does not show a tool, by its server's name of it.
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
