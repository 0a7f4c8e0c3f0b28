package mcp

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// inWords returns the text for a model about a failure: the problem, the effect, and the next step. A model knows
// its tools and its user, so the text names neither keys nor commands nor processes of the bus. It names the key
// only if the client lacks one that the tool requires. class is the effect class of the tool; "" if the call
// reached no tool.
func inWords(r *envelope.Response, class toolbus.EffectClass) string {
	e := r.Error
	problem, do := reported(e)
	switch {
	case needsKey(e):
		problem, do = "This tool needs an idempotency key, which the client sends as "+metaKey, askKey
	case e.Details.ToolResult == nil:
		problem, do = explained(e)
	case declares(e):
		do = e.Fix
	}
	var lines []string
	if problem != "" {
		lines = append(lines, ended(problem))
	}
	for _, v := range e.Details.Violations {
		place := placeOf(v.Pointer)
		if v.Pointer == "" && e.Code == envelope.CodeOutput {
			place = "the output"
		}
		lines = append(lines, fmt.Sprintf("- %s: %s", place, v.Message))
	}
	if e.Details.ViolationsTruncated {
		lines = append(lines, "- and more, which are not listed")
	}
	effect, mayRepeat := effectOf(r, class)
	if effect != "" {
		lines = append(lines, effect)
	}
	if mayRepeat && do != "" {
		lines = append(lines, "What to do: "+ended(do))
	}
	if mayRepeat && e.Retryable && e.Details.RetryAfterMS > 0 {
		after := time.Duration(e.Details.RetryAfterMS) * time.Millisecond
		lines = append(lines, fmt.Sprintf("It may succeed if tried again after %s.", after))
	}
	return strings.Join(lines, "\n")
}

// needsKey reports whether a call is refused because its client sent no key, which the tool requires.
func needsKey(e *envelope.Error) bool {
	return slices.ContainsFunc(e.Details.Violations, func(v ijson.Violation) bool { return v.Pointer == asKey })
}

// inWords is the function inWords with the MCP name in place of the tool id.
func (d *Definition) inWords(r *envelope.Response) string {
	return strings.ReplaceAll(inWords(r, d.class), d.Tool, d.Name)
}

// ended returns a text as a sentence, or as the question that it is.
func ended(text string) string {
	text = strings.TrimRight(text, ". \n")
	if strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// effectOf returns a sentence about the effect of a failed call, and whether a further call is safe.
func effectOf(r *envelope.Response, class toolbus.EffectClass) (sentence string, mayRepeat bool) {
	effect, once := r.Error.Details.Effect, class == toolbus.SideEffectful
	switch {
	case !r.Provenance.Final && effect != envelope.EffectNone && effect != envelope.EffectApplied:
		return "The call may still go on. Wait, and then check what was done before you call again.", false
	case effect == envelope.EffectApplied:
		return "The work of the call was done: do not call again for it.", false
	case effect == envelope.EffectNone && r.Error.Details.ToolResult != nil:
		return "", true // the tool is pure, or reported that it did nothing
	case effect == envelope.EffectNone:
		return "Nothing was done.", true
	case class == toolbus.Idempotent:
		return "It is not known whether it was done. To call again with the same arguments does no harm.", true
	case once && r.Error.Details.ToolResult != nil:
		return "The tool may have done a part of it before it failed: check before you repeat it.", true
	}
	return "It is not known whether it was done: check before you call again.", !once
}

// reported returns the text for an error that a tool of an MCP server reported itself. It follows the content of the
// server.
func reported(e *envelope.Error) (problem, do string) {
	switch text := e.Message + "\n" + e.Cause; { // after a retry, the text of the tool is in the cause
	case e.Code.Class() == envelope.ClassCapacity || limited.MatchString(text):
		return "The tool reported that it was called too often",
			"wait before you call it again, longer each time, and make fewer calls"
	case missing.MatchString(text):
		return "The tool reported that something the call names does not exist",
			"check names and paths, for example with a tool that lists them, and try again"
	}
	return "The tool reported this error itself", "correct the arguments and try again if that helps"
}

// Error texts for which reported returns a specific text.
var (
	limited = regexp.MustCompile(`(?i)rate.?limit|too many requests|quota (was )?exceeded|\bthrottl|\b429\b`)
	missing = regexp.MustCompile(`(?i)\bENOENT\b|no such (file|directory|entry|key|table|column|branch)|\bnot found\b|` +
		`\b(does|do) ?n[o']t exist|\b404\b`)
)

// explained returns the text for any other error: that of the tool if it declared the error, that of the error if it is
// specific and fit for a model, and otherwise that of the tables.
func explained(e *envelope.Error) (problem, do string) {
	known, row := words(e.Code), envelope.Lookup(e.Code)
	problem, do = known.problem, known.do
	if e.Message != row.Message && (e.Details.ToolCode != "" || forModels(e.Message)) {
		problem = e.Message
	}
	if declares(e) {
		do = e.Fix
	}
	if e.Cause != "" && forModels(e.Cause) {
		problem = strings.TrimRight(problem, ". ") + ": " + e.Cause
	}
	return problem, do
}

// declares reports whether the manifest of the tool has a fix for the error.
func declares(e *envelope.Error) bool {
	return e.Details.ToolCode != "" && !foreign(e.Code) && e.Fix != envelope.Lookup(e.Code).Fix &&
		!strings.HasPrefix(e.Fix, "declare the error ")
}

// forModels reports whether a text contains no terms that a model does not know, such as names of processes and flags.
func forModels(text string) bool { return !unknownWords.MatchString(text) }

var unknownWords = regexp.MustCompile("(?i)\\bkeys?\\b|idempotency|toolbus|\\bshell\\b|--|`|" +
	"dispatcher|executor|timeout_ms|details\\.|\\bstandard error\\b")

// joined returns texts, each on lines of its own.
func joined(texts ...string) string {
	var all []string
	for _, text := range texts {
		if text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "\n")
}

// A text for a model has at most maxWarned warnings, each of at most maxWarning bytes.
const (
	maxWarned  = 10
	maxWarning = 400
)

// warningsOf returns the warnings of an outcome as text for a model, or "".
func warningsOf(r *envelope.Response) string {
	var lines []string
	for i, w := range r.Warnings {
		if i == maxWarned {
			lines = append(lines, fmt.Sprintf("Warning: there are %d more.", len(r.Warnings)-i))
			break
		}
		lines = append(lines, "Warning: "+ended(ijson.Clip(w, maxWarning)))
	}
	return strings.Join(lines, "\n")
}
