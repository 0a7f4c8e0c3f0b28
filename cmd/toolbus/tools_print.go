package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
)

func listTools(out io.Writer, d envelope.DescribeResponse) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "TOOL\tVERSION\tSTATUS\tEFFECT CLASS\tFUNCTIONS\tTITLE")
	for _, t := range d.Tools {
		fns := strings.Join(slices.Sorted(maps.Keys(t.Functions)), ",")
		if fns == envelope.AnyFunction {
			fns = "any"
		}
		status := t.Status
		switch {
		case t.Changed:
			status = waiting
		case t.Differs:
			status = differing
		case t.Unrunnable:
			status = unrunnable
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", t.ToolID, t.Version, status, t.Determinism, fns, cli.EscapeCell(t.Title))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if ids := slices.Concat(envelope.Changed(d.Tools), envelope.Differing(d.Tools)); len(ids) > 0 {
		fmt.Fprintf(out, "\nA changed tool is not called until it is approved:\n  toolbus tools approve %s\n",
			strings.Join(ids, " "))
	}
	if slices.ContainsFunc(d.Tools, func(t envelope.ToolInfo) bool { return t.Unrunnable }) {
		fmt.Fprintln(out, "\nNo executor could start a tool that cannot run: `toolbus doctor` says why.")
	}
	if len(d.Offered) > 0 {
		fmt.Fprintln(out, "\nTools that servers have and that were not imported; import a server again to add its tools:")
	}
	for _, server := range slices.Sorted(maps.Keys(d.Offered)) {
		fmt.Fprintf(out, "  %s: %s\n", cli.EscapeCell(server), cli.EscapeCell(strings.Join(d.Offered[server], ", ")))
	}
	return nil
}

// Status of a tool that its server has changed, or that no executor could start.
const (
	waiting    = "changed: waits for approval"
	differing  = "changed for some executors"
	unrunnable = "cannot run"
)

// shownWidth is the width of what is printed about a tool, in columns. Schemas are printed as they are.
const shownWidth = 80

// writeWrapped prints text in lines of shownWidth columns, indented by some columns.
func writeWrapped(out io.Writer, indent int, text string) {
	for _, line := range cli.Wrapped(cli.EscapeCell(text), shownWidth-indent) {
		fmt.Fprintf(out, "%*s%s\n", indent, "", line)
	}
}

// writeField prints a name, padded to some columns, and its value: on the same line if it fits there, otherwise below.
func writeField(out io.Writer, pad int, name, value string) {
	row := fmt.Sprintf("%-*s  %s", pad, name, cli.EscapeCell(value))
	if utf8.RuneCountInString(row) <= shownWidth {
		fmt.Fprintln(out, strings.TrimRight(row, " "))
		return
	}
	fmt.Fprintln(out, strings.TrimRight(name, " "))
	writeWrapped(out, detailIndent, value)
}

// detailIndent is the indentation of what follows below a name.
const detailIndent = 4

func showTool(out io.Writer, t envelope.ToolInfo, endpoint string) error {
	writeWrapped(out, 0, t.ToolID+" "+t.Version+": "+t.Title)
	for line := range strings.Lines(strings.TrimSpace(t.Description)) {
		writeWrapped(out, 0, strings.TrimSpace(line))
	}
	fmt.Fprintln(out)
	for _, f := range factsOf(t, endpoint) {
		writeField(out, len("build digest"), f[0], f[1])
	}
	if err := showFields(out, t); err != nil {
		return err
	}
	examples := examplesOf(t)
	for _, name := range slices.Sorted(maps.Keys(t.Functions)) {
		if err := showFunction(out, name, t.Functions[name], examples[name].Examples); err != nil {
			return err
		}
	}
	if len(t.Errors) > 0 {
		fmt.Fprintln(out, "\nerrors:")
	}
	for _, e := range t.Errors {
		status := cmp.Or(e.HTTPStatus, envelope.Lookup(e.Code).HTTPStatus)
		writeWrapped(out, 2, fmt.Sprintf("%s (HTTP %d): %s", e.Code, status, e.Message))
		writeWrapped(out, detailIndent, "fix: "+e.Fix)
	}
	return nil
}

// factsOf returns names and values of what is said about a tool in any build, the state of its approval first.
func factsOf(t envelope.ToolInfo, endpoint string) (all [][2]string) {
	add := func(so bool, name, format string, args ...any) {
		if so {
			all = append(all, [2]string{name, fmt.Sprintf(format, args...)})
		}
	}
	add(t.Name != "", "name in MCP", "%s", t.Name)
	add(t.Changed, "state", "%s: toolbus tools approve %s", waiting, t.ToolID)
	add(t.Differs, "state", "%s: toolbus tools approve %s", differing, t.ToolID)
	add(t.Unrunnable, "state", "%s: `toolbus doctor` says why", unrunnable)
	add(true, "owner", "%s", t.Owner)
	add(true, "status", "%s", t.Status)
	add(true, "effect class", "%s", t.Determinism)
	add(true, "transport", "%s", t.Transport)
	add(endpoint != "", "endpoint", "%s", endpoint)
	add(t.Transport == process.Transport, "sandbox", "none: it reaches all files and hosts of its executor's user")
	add(true, "pool", "%s", t.Pool)
	add(true, "streaming", "%t", t.Streaming)
	add(true, "dry run", "%t", t.DryRun)
	add(true, "lookup", "%t", t.Lookup)
	add(true, "build digest", "%s", t.Digest)
	add(true, "timeout", "%d ms, at most %d ms", t.TimeoutDefaultMS, t.TimeoutMaxMS)
	l := t.Limits
	limited := l != (envelope.ToolLimits{})
	add(limited, "concurrency", "%d runs at once in one executor", l.Concurrency)
	add(limited, "output", "at most %d bytes", l.OutputBytes)
	add(limited, "stderr", "at most %d bytes", l.StderrBytes)
	add(limited, "memory", "%d MB, not enforced", l.MemoryMB)
	add(limited, "outcomes", "kept for %d s", t.RetentionS)
	return all
}

// exampled has the examples of a function of a manifest.
type exampled struct {
	Examples jsontext.Value `json:"examples"`
}

// examplesOf returns the functions that the manifest of a tool declares, as far as they can be read.
func examplesOf(t envelope.ToolInfo) map[string]exampled {
	var m struct {
		Functions map[string]exampled `json:"functions"`
	}
	_ = json.Unmarshal(t.Manifest, &m) // showFields has read it
	return m.Functions
}

func showFunction(out io.Writer, name string, fn envelope.FunctionInfo, examples jsontext.Value) error {
	if name == envelope.AnyFunction {
		name = "of any name"
	}
	fmt.Fprintln(out)
	writeWrapped(out, 0, "function "+name+": "+fn.Description)
	fmt.Fprintln(out, "request schema:")
	if err := cli.WriteJSON(out, fn.Request); err != nil {
		return err
	}
	fmt.Fprintln(out, "response schema:")
	err := cli.WriteJSON(out, fn.Response)
	if err != nil || examples == nil {
		return err
	}
	fmt.Fprintln(out, "examples:")
	return cli.WriteJSON(out, examples)
}

// showFields prints the fields of the manifest with what Toolbus does with them, and their values. Functions and errors
// are shown for themselves.
func showFields(out io.Writer, t envelope.ToolInfo) error {
	if t.Manifest == nil { // from a dispatcher of an older build
		return nil
	}
	values, err := tool.Values(t.Manifest)
	if err != nil {
		return err
	}
	values = slices.DeleteFunc(values, func(v tool.Value) bool { return v.Name == "functions" || v.Name == "errors" })
	longest := 0
	for _, v := range values {
		longest = max(longest, len(v.Name))
	}
	fmt.Fprintln(out, "\nmanifest:")
	for _, v := range values {
		name := fmt.Sprintf("  %-*s  %-*s", longest, v.Name, len("declared only"), v.State)
		writeField(out, 0, name, string(v.Value))
	}
	return nil
}
