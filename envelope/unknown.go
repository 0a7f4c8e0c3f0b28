package envelope

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// maxNamed is how many functions an error lists; its text is bounded, too.
const maxNamed = 20

// NoTool returns the error for a request for the unknown tool id. It suggests the most similar one of tools.
func NoTool(id string, tools []string) *Error {
	return NewError(CodeToolUnknown, fmt.Sprintf("there is no tool %q", ijson.Clip(id, MaxToolID))+meant(id, tools))
}

// NoFunction returns the error for a request for the unknown function fn of a tool, or for "" if the tool has several
// functions. It suggests the most similar one of functions, and lists them.
func NoFunction(tool, fn string, functions []string) *Error {
	names := slices.Sorted(slices.Values(functions))
	if len(names) > maxNamed {
		names = append(names[:maxNamed], "…")
	}
	fix := "use one of the functions of the tool: " + strings.Join(names, ", ")
	if fn == "" {
		says := fmt.Sprintf("the request names no function, and tool %q has %d", tool, len(functions))
		if len(names) > 0 {
			fix += fmt.Sprintf("; for example `toolbus call %s %s`", tool, names[0])
		}
		return NewError(CodeFnUnknown, says).WithFix(fix)
	}
	says := fmt.Sprintf("tool %q has no function %q", tool, ijson.Clip(fn, MaxToolID)) + meant(fn, functions)
	return NewError(CodeFnUnknown, says).WithFix(fix)
}

// meant is the question whether one of names was meant by word; "" where none is like it.
func meant(word string, names []string) string {
	if name, ok := Nearest(word, names); ok {
		return fmt.Sprintf("; did you mean %q?", name)
	}
	return ""
}

// Nearest returns the name that is most similar to word, for a suggestion in an error. Case does not matter. A name is
// similar if its edit distance to word is at most len(word)/3+1, or if it begins with word and a dot, or ends with a
// dot and word. ok is false if no name is similar, or if word has more than 64 bytes.
func Nearest(word string, names []string) (name string, ok bool) { return ijson.Nearest(word, names) }
