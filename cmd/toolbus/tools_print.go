package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

func listTools(out io.Writer, d envelope.DescribeResponse) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "TOOL\tVERSION\tSTATUS\tDETERMINISM\tFUNCTIONS\tTITLE")
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
	if len(d.Offered) > 0 {
		fmt.Fprintln(out, "\nTools that servers have and that were not imported; import a server again to add its tools:")
	}
	for _, server := range slices.Sorted(maps.Keys(d.Offered)) {
		fmt.Fprintf(out, "  %s: %s\n", cli.EscapeCell(server), cli.EscapeCell(strings.Join(d.Offered[server], ", ")))
	}
	return nil
}

// Status of a tool that its server has changed.
const (
	waiting   = "changed: waits for approval"
	differing = "changed for some executors"
)

func showTool(out io.Writer, t envelope.ToolInfo) error {
	fmt.Fprintf(out, "%s %s: %s\n%s\n\n", t.ToolID, t.Version, cli.EscapeCell(t.Title),
		cli.EscapeText(strings.TrimSpace(t.Description)))
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	if t.Name != "" {
		fmt.Fprintf(w, "name in MCP\t%s\n", t.Name)
	}
	if t.Changed {
		fmt.Fprintf(w, "state\t%s: toolbus tools approve %s\n", waiting, t.ToolID)
	}
	if t.Differs {
		fmt.Fprintf(w, "state\t%s: toolbus tools approve %s\n", differing, t.ToolID)
	}
	fmt.Fprintf(w, "owner\t%s\nstatus\t%s\ndeterminism\t%s\ntransport\t%s\npool\t%s\nstreaming\t%t\ndry "+
		"run\t%t\nlookup\t%t\nbuild digest\t%s\ntimeout\t%d ms, at most %d ms\n",
		cli.EscapeCell(t.Owner), t.Status, t.Determinism, t.Transport, t.Pool, t.Streaming, t.DryRun, t.Lookup, t.Digest,
		t.TimeoutDefaultMS, t.TimeoutMaxMS)
	if l := t.Limits; l != (envelope.ToolLimits{}) {
		fmt.Fprintf(w, "concurrency\t%d runs at once in one executor\noutput\tat most %d bytes\nstderr\tat most %d "+
			"bytes\nmemory\t%d MB, not enforced\noutcomes\tkept for %d s\n",
			l.Concurrency, l.OutputBytes, l.StderrBytes, l.MemoryMB, t.RetentionS)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := showFields(out, t); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(t.Functions)) {
		fn := t.Functions[name]
		if name == envelope.AnyFunction {
			name = "of any name"
		}
		fmt.Fprintf(out, "\nfunction %s: %s\nrequest schema:\n", name, cli.EscapeCell(fn.Description))
		if err := cli.WriteJSON(out, fn.Request); err != nil {
			return err
		}
		fmt.Fprintln(out, "response schema:")
		if err := cli.WriteJSON(out, fn.Response); err != nil {
			return err
		}
	}
	if len(t.Errors) > 0 {
		fmt.Fprintln(out, "\nerrors:")
		for _, e := range t.Errors {
			fmt.Fprintf(w, "  %s\t%d\t%s\t%s\n", e.Code, e.HTTPStatus, cli.EscapeCell(e.Message), cli.EscapeCell(e.Fix))
		}
	}
	return w.Flush()
}

// showFields prints every field of the manifest with what Toolbus does with it.
func showFields(out io.Writer, t envelope.ToolInfo) error {
	if t.Manifest == nil { // from a dispatcher of an older build
		return nil
	}
	values, err := tool.Values(t.Manifest)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "\nmanifest:")
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, v := range values {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", v.Name, cli.EscapeCell(string(v.Value)), v.State)
	}
	return w.Flush()
}
