package envelope

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// MaxFunctionName is the most characters of the name that a function has in MCP. APIs of models take 64, and MCP
// clients put a prefix of their own before a name, such as mcp__toolbus__.
const MaxFunctionName = 48

// FunctionID names one function of one tool.
type FunctionID struct{ Tool, Fn string }

// shortName is the form of the names that each API of a model takes.
var shortName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,48}$`)

// IsFunctionName reports whether a manifest may give a tool this name: ASCII letters, digits, _ and -, at most MaxName.
func IsFunctionName(name string) bool { return shortName.MatchString(name) }

// FunctionNames returns the name in MCP of each function of the tools, each a different one and none that is taken. It
// is the tool's own name or else its id with _ for each character that a name cannot have, and the function's name
// behind it if the tool has several. A name that is too long, or another function's, has a digest at its end. The
// names that manifests give come first, then ids that are names as they are, then all others by tool id: so a tool
// without a name never changes the name of one that has it, nor takes the id of another one.
func FunctionNames(tools []ToolInfo, taken ...string) map[FunctionID]string {
	names, used := map[FunctionID]string{}, map[string]bool{}
	for _, name := range taken {
		used[name] = true
	}
	sorted := slices.SortedFunc(slices.Values(tools), func(a, b ToolInfo) int {
		return cmp.Or(order(a)-order(b), strings.Compare(a.ToolID, b.ToolID))
	})
	for _, t := range sorted {
		for _, fn := range slices.Sorted(maps.Keys(t.Functions)) {
			id := FunctionID{t.ToolID, fn}
			if names[id] != "" { // another version of the tool
				continue
			}
			name := t.plainName(fn)
			if len(name) > MaxFunctionName || used[name] {
				name = ShortenName(name, MaxFunctionName, "_", t.ToolID, fn)
			}
			names[id], used[name] = name, true
		}
	}
	return names
}

// order puts tools with a name of their own before all others, and last those whose name is not their id.
func order(t ToolInfo) int {
	switch {
	case IsFunctionName(t.Name):
		return 0
	case len(t.Functions) == 1 && IsFunctionName(t.ToolID):
		return 1
	}
	return 2
}

// plainName is the name of a function before its length and other names count.
func (t ToolInfo) plainName(fn string) string {
	name := t.ToolID
	if IsFunctionName(t.Name) {
		name = t.Name
	}
	if len(t.Functions) > 1 {
		name += "." + fn
	}
	return PlainFunctionName(name)
}

// PlainFunctionName returns a text with _ for each character that a name cannot have.
func PlainFunctionName(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z' {
			return r
		}
		return '_'
	}, text)
}

// ShortenName returns the beginning of a name, and behind the separator a digest of parts, in at most most bytes.
func ShortenName(name string, most int, separator string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	tail := separator + hex.EncodeToString(sum[:4])
	return name[:min(len(name), most-len(tail))] + tail
}
