package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// output prints what commands have found.
type output struct {
	env   *environment
	json  bool
	lines bool // print JSON as lines: the chunks of a call, then its outcome
}

// print prints v as JSON with --json, and otherwise calls text.
func (o *output) print(v any, text func(io.Writer) error) error {
	if o.json {
		return cli.WriteJSON(o.env.stdout, v)
	}
	return text(o.env.stdout)
}

// say prints v as JSON with --json, and otherwise line.
func (o *output) say(v any, line string) error {
	return o.print(v, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, line)
		return err
	})
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
		return cli.WriteJSONLine(g.env.stdout, withRef(r, ref))
	case g.json:
		return cli.WriteJSON(g.env.stdout, withRef(r, ref))
	}
	if r.Status == envelope.Success {
		if err := cli.WriteJSON(g.env.stdout, r.Output); err != nil {
			return err
		}
	} else {
		cli.PrintError(g.env.stderr, r.Error, g.about(ref))
		for _, effect := range r.SideEffects {
			fmt.Fprintln(g.env.stderr, "side_effects:", cli.EscapeCell(string(effect)))
		}
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(g.env.stderr, "warning:", cli.EscapeCell(w))
	}
	fmt.Fprintln(g.env.stderr, cli.Summary(r, ref))
	return nil
}

// withRef returns r with the reference of its call, if it has one, as the member ref of its provenance. The response of
// the wire has no reference, and a program that reads standard output needs it to ask about the call.
func withRef(r *envelope.Response, ref string) *envelope.Response {
	if ref == "" {
		return r
	}
	c := *r
	c.Provenance.Extra = maps.Clone(r.Provenance.Extra)
	if c.Provenance.Extra == nil {
		c.Provenance.Extra = map[string]jsontext.Value{}
	}
	c.Provenance.Extra["ref"] = ijson.Quote(ref)
	return &c
}

func printChunk(g *global, c envelope.Chunk) error {
	if g.json {
		return cli.WriteJSONLine(g.env.stdout, c)
	}
	out := g.env.stdout
	if c.Kind != envelope.ChunkData {
		out = g.env.stderr
		fmt.Fprintf(out, "%s: ", c.Kind)
	}
	return cli.WriteJSONLine(out, c.Data)
}
