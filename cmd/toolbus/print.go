package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// print prints v as JSON, or what text writes.
func (g *global) print(v any, text func(io.Writer) error) error {
	if g.json {
		return printJSON(g.env.stdout, v)
	}
	return text(g.env.stdout)
}

// say prints v as JSON, or a line of text.
func (g *global) say(v any, line string) error {
	return g.print(v, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, line)
		return err
	})
}

func printJSON(w io.Writer, v any) error {
	return writeJSON(w, v, jsontext.Multiline(true), jsontext.WithIndent("  "), json.Deterministic(true))
}

// printLine prints v as JSON on one line.
func printLine(w io.Writer, v any) error { return writeJSON(w, v) }

func writeJSON(w io.Writer, v any, options ...json.Options) error {
	data, err := json.Marshal(v, options...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, escaped(string(data)))
	return err
}

// drives reports whether a character drives a terminal.
func drives(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// escaped is plain for JSON, which says the same with an escape in place of a character. Those that
// it may hold unescaped and that drive a terminal are only in its strings.
func escaped(text string) string {
	if !mayDrive(text) || strings.IndexFunc(text, drives) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if drives(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

func exitCode(s envelope.Status) int {
	switch s {
	case envelope.Success:
		return 0
	case envelope.RetryableError:
		return exitRetryable
	case envelope.InvalidRequest:
		return exitInvalid
	}
	return exitTerminal
}

// printOutcome prints a response and ends the command with its exit code.
func printOutcome(g *global, r *envelope.Response, ref string) error {
	code := exitCode(r.Status)
	return cmp.Or(show(g, r, ref), exitIf(code != 0, code))
}

func show(g *global, r *envelope.Response, ref string) error {
	switch {
	case g.json && g.lines:
		return printLine(g.env.stdout, r)
	case g.json:
		return printJSON(g.env.stdout, r)
	}
	if r.Status == envelope.Success {
		if err := printJSON(g.env.stdout, r.Output); err != nil {
			return err
		}
	} else {
		printError(g.env.stderr, r.Error)
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(g.env.stderr, "warning:", plain(w))
	}
	fmt.Fprintln(g.env.stderr, summary(r, ref))
	return nil
}

// summary is one line about how the call went.
func summary(r *envelope.Response, ref string) string {
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
	if ref != "" {
		parts = append(parts, "ref "+ref)
	}
	return plain(strings.Join(parts, " · "))
}

func printError(to io.Writer, e *envelope.Error) {
	w := &strings.Builder{}
	defer func() { fmt.Fprint(to, plain(w.String())) }()
	fmt.Fprintf(w, "%s: %s\n", e.Code, e.Message)
	for _, v := range e.Details.Violations {
		fmt.Fprintf(w, "  %s: %s\n", cmp.Or(v.Pointer, "(whole request)"), v.Message)
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
	if e.Details.Stderr != "" {
		fmt.Fprintln(w, "  stderr of the tool:")
		for line := range strings.Lines(e.Details.Stderr) {
			fmt.Fprint(w, "    ", line)
		}
		fmt.Fprintln(w)
	}
}

// mayDrive reports whether text is more than printable ASCII, which is soon known of what a million lines are.
func mayDrive(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return true
		}
	}
	return false
}

// plain replaces what would drive a terminal: what a tool says is shown, not obeyed.
func plain(s string) string {
	if !mayDrive(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if drives(r) {
			return '·'
		}
		return r
	}, s)
}

func printChunk(g *global, c envelope.Chunk) error {
	if g.json {
		return printLine(g.env.stdout, c)
	}
	out := g.env.stdout
	if c.Kind != envelope.ChunkData {
		out = g.env.stderr
		fmt.Fprintf(out, "%s: ", c.Kind)
	}
	return printLine(out, c.Data)
}
