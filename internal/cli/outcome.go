package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

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
	if !p.Final {
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

// PrintError prints an error as text, with its causes and its fix.
func PrintError(to io.Writer, e *envelope.Error) {
	w := &strings.Builder{}
	defer func() { fmt.Fprint(to, EscapeText(w.String())) }()
	fmt.Fprintf(w, "%s: %s\n", e.Code, e.Message)
	for _, v := range e.Details.Violations {
		fmt.Fprintf(w, "  %s: %s\n", cmp.Or(v.Pointer, "(whole request)"), v.Message)
	}
	if e.Details.ViolationsTruncated {
		fmt.Fprintln(w, "  and more, which are not listed")
	}
	if e.Cause != "" {
		fmt.Fprintln(w, "  cause:", e.Cause)
	}
	if e.Details.Effect != "" {
		fmt.Fprintln(w, "  effect:", e.Details.Effect)
	}
	if e.Details.RetryAfterMS > 0 {
		fmt.Fprintf(w, "  retry after: %d ms\n", e.Details.RetryAfterMS)
	}
	if e.Fix != "" {
		fmt.Fprintln(w, "  fix:", e.Fix)
	}
	if q, ok := e.Question(); ok {
		fmt.Fprintln(w, "  asks:", string(q.Requests))
		fmt.Fprintf(w, "  answer: the same call with --answer-to %s --answer JSON\n", q.State)
	}
	if n := resultBytes(e); n > 0 {
		fmt.Fprintf(w, "  result of the tool: %d bytes; --json prints it, as error.details.tool_result\n", n)
	}
	if e.Details.Stderr != "" {
		fmt.Fprintln(w, "  stderr of the tool:")
		for line := range strings.Lines(e.Details.Stderr) {
			fmt.Fprint(w, "    ", line)
		}
		fmt.Fprintln(w)
	}
}

// resultBytes returns the size of the result that a failed tool returned.
func resultBytes(e *envelope.Error) int64 {
	if ref := e.Details.ToolResultRef; ref != nil && len(e.Details.ToolResult) == 0 {
		return ref.Bytes
	}
	return int64(len(e.Details.ToolResult))
}
