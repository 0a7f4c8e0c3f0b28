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

// MaxFunctionName is the largest number of characters in the MCP name of a function. Model APIs accept 64, and MCP
// clients add a prefix of their own, such as mcp__toolbus__.
const MaxFunctionName = 48

// FunctionID identifies one function of one tool.
type FunctionID struct{ Tool, Fn string }

// shortName is the form of the names that each API of a model takes.
var shortName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,48}$`)

// IsFunctionName reports whether name is valid as the name of a tool in a manifest: ASCII letters, digits, _ and -, at
// most MaxFunctionName characters.
func IsFunctionName(name string) bool { return shortName.MatchString(name) }

// FunctionNames returns the MCP name of each function of the tools. All names are different, and none is in taken. A
// name is the name in the manifest, or the tool id with _ for each character that a name cannot have. If the tool has
// several functions, the name of the function is appended. A name that is too long, or that another function has, ends
// with a digest. Names in manifests are assigned first, then ids that are valid names, then all others in the order of
// tool ids. So a tool without a name never changes the name of a tool that has one, and never takes the id of another
// tool.
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
			id := FunctionID{t.ToolID, NameToCall(fn)}
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

// PlainFunctionName returns text with each character replaced by _ that a name cannot have.
func PlainFunctionName(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z' {
			return r
		}
		return '_'
	}, text)
}

// ShortenName returns a prefix of name, the separator and a digest of parts, together at most most bytes.
func ShortenName(name string, most int, separator string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	tail := separator + hex.EncodeToString(sum[:4])
	return name[:min(len(name), most-len(tail))] + tail
}

// AnyFunction is the name of the function in the description of a tool that declares no functions: its schemas hold for
// a call of any function.
const AnyFunction = "*"

// DefaultFunction is the function of a call that names none, if the tool declares no functions.
const DefaultFunction = "run"

// Function returns the description of the function named fn, and whether the tool has it.
func (t ToolInfo) Function(fn string) (FunctionInfo, bool) {
	if every, ok := t.Functions[AnyFunction]; ok {
		return every, true
	}
	f, ok := t.Functions[fn]
	return f, ok
}

// NameToCall returns the function that a call names to reach the described function fn.
func NameToCall(fn string) string {
	if fn == AnyFunction {
		return DefaultFunction
	}
	return fn
}
