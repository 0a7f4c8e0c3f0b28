package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Summary returns one line about the outcome of a call.
func Summary(r *envelope.Response, ref string) string {
	parts := []string{string(r.Status)}
	p := r.Provenance
	if p.ToolVersion != "" {
		parts = append(parts, p.ToolID+" "+p.ToolVersion)
	}
	if p.Attempt > 0 {
		parts = append(parts, fmt.Sprintf("attempt %d", p.Attempt),
			fmt.Sprintf("%d ms (queued %d ms)", r.Metrics.DurationMS, r.Metrics.QueueMS))
	}
	if p.Replayed {
		parts = append(parts, "replayed")
	}
	switch {
	case p.Final || r.Status != envelope.RetryableError: // others change only by what their fix says
	case r.Error.Details.Effect == envelope.EffectApplied: // its fix says not to repeat it, see envelope.FixApplied
		parts = append(parts, "NOT FINAL: its effect took place")
	case r.Error.Code == envelope.CodeExpired:
		parts = append(parts, "NOT FINAL: take a new credential, then ask again with the same key")
	default:
		parts = append(parts, "NOT FINAL: ask again with the same key")
	}
	if p.Attempt == 0 && p.AuditEventID != "" {
		parts = append(parts, "record "+p.AuditEventID)
	}
	if ref != "" {
		parts = append(parts, "ref "+ref)
	}
	return EscapeCell(strings.Join(parts, " · "))
}

// PrintError prints an error as text, with its causes, its details and its fix. Details have their names, since fixes
// point at them. call is the reference of the call, with the flags that commands about it need, or "" if it has none.
func PrintError(to io.Writer, e *envelope.Error, call string) {
	w := &strings.Builder{}
	defer func() { fmt.Fprint(to, EscapeText(w.String())) }()
	fmt.Fprintf(w, "%s: %s\n", e.Code, e.Message)
	printViolations(w, e)
	if e.Cause != "" {
		fmt.Fprintln(w, "  cause:", e.Cause)
	}
	if e.Details.Effect != "" {
		fmt.Fprintln(w, "  effect:", e.Details.Effect)
	}
	if e.Details.RetryAfterMS > 0 {
		fmt.Fprintln(w, "  details.retry_after_ms:", e.Details.RetryAfterMS)
	}
	q, asks := e.Question()
	if !asks {
		printDetails(w, e.Details.OfTool())
	}
	if e.Fix != "" {
		fmt.Fprintln(w, "  fix:", e.Fix)
	}
	if asks {
		fmt.Fprintln(w, "  details.input_requests:", string(q.Requests))
		fmt.Fprintf(w, "  answer with details.input_state: the same call with --answer-to %s --answer JSON\n", q.State)
	}
	if n := resultBytes(e); n > 0 {
		fmt.Fprintf(w, "  result of the tool: %d bytes; --json prints it, as error.details.tool_result\n", n)
	}
	printStderr(w, e.Details.Stderr, call)
}

// The first and the last lines of a tool's standard error are printed. --json prints all.
const (
	firstLines = 5
	lastLines  = 15
)

// printStderr prints the standard error of a tool. The first error is often at its beginning, and the reason for the
// end at the end.
func printStderr(w io.Writer, text, call string) {
	if text == "" {
		return
	}
	fmt.Fprintln(w, "  stderr of the tool:")
	lines := slices.Collect(strings.Lines(text))
	if more := len(lines) - firstLines - lastLines; more > 0 {
		hidden := lines[firstLines : len(lines)-lastLines]
		lines = slices.Concat(lines[:firstLines], []string{noteHidden(hidden, call)}, lines[len(lines)-lastLines:])
	}
	for _, line := range lines {
		fmt.Fprintln(w, "    "+shortened(strings.TrimSuffix(line, "\n")))
	}
}

// bytesLeftOut matches the line in the place of what an executor did not keep.
var bytesLeftOut = regexp.MustCompile(`^\[(\d+) bytes left out\]\n$`)

// noteHidden returns the line in the place of hidden lines. It says which command prints them, and how many bytes among
// them no command can print.
func noteHidden(hidden []string, call string) string {
	command := "--json"
	if call != "" {
		command = "`toolbus result " + call + " --json`"
	}
	for i, line := range hidden {
		if found := bytesLeftOut.FindStringSubmatch(line); found != nil {
			return fmt.Sprintf("[%d lines left out, which %s prints, and after %d of them %s bytes that were not kept]\n",
				len(hidden)-1, command, i, found[1])
		}
	}
	return fmt.Sprintf("[%d lines left out; %s prints all]\n", len(hidden), command)
}

func printViolations(w io.Writer, e *envelope.Error) {
	d, whole := e.Details, "(whole request)"
	if e.Code == envelope.CodeOutput {
		whole = "(whole output)"
	}
	if len(d.Violations) > 0 {
		fmt.Fprintln(w, "  details.violations:")
	}
	for _, v := range d.Violations {
		fmt.Fprintf(w, "    %s: %s\n", cmp.Or(v.Pointer, whole), v.Message)
	}
	if d.ViolationsTruncated {
		fmt.Fprintln(w, "    and more, which are not listed")
	}
}

// The tool's own details are printed up to maxDetails members of maxDetail bytes, and lines of its standard error up to
// maxDetail bytes. --json prints all.
const (
	maxDetails = 20
	maxDetail  = 400
)

// printDetails prints the details that the tool itself gave, each on one line.
func printDetails(w io.Writer, all map[string]jsontext.Value) {
	names := slices.Sorted(maps.Keys(all))
	for _, name := range names[:min(len(names), maxDetails)] {
		text := string(all[name])
		if all[name].Kind() == '"' {
			if plain, err := jsontext.AppendUnquote(nil, all[name]); err == nil {
				text = string(plain)
			}
		}
		fmt.Fprintf(w, "  details.%s: %s\n", EscapeCell(name), EscapeCell(shortened(text)))
	}
}

// shortened returns the first maxDetail bytes of a text, and says how many are left out.
func shortened(text string) string {
	more := len(text) - maxDetail
	if more <= 0 {
		return text
	}
	return strings.ToValidUTF8(text[:maxDetail], "") + fmt.Sprintf("… (%d bytes more; --json prints all)", more)
}

// resultBytes returns the size of the result that a failed tool returned.
func resultBytes(e *envelope.Error) int64 {
	if ref := e.Details.ToolResultRef; ref != nil && len(e.Details.ToolResult) == 0 {
		return ref.Bytes
	}
	return int64(len(e.Details.ToolResult))
}
