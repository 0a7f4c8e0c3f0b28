package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

func deadCmd(g *global) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "dead", Short: "Show and replay dead letters: calls that executors gave up", GroupID: "operate",
		Example: "  toolbus dead list\n  toolbus dead replay 3",
	})
	seqArg := cli.Args(1, 1, "the number of a dead letter")
	cmd.AddCommand(&cobra.Command{
		Use: "list", Short: "List the dead letters of all tenants, or of one", Args: cli.NoArgs,
		Long: `Lists the dead letters of all tenants, or of --tenant, and below each its replays with their outcomes. A
replay is a recorded request for the same tool and input in the same trace, such as "dead replay" makes.`,
		Example: "  toolbus dead list\n  toolbus dead list --tenant acme --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.reading(cmd.Context(), func(from reader.Source) error { return listDead(cmd.Context(), g, from) })
		},
	}, &cobra.Command{
		Use: "show N", Short: "Show the request of a dead letter, why executors gave it up, and its history", Args: seqArg,
		Example: "  toolbus dead show 3  # a number that `toolbus dead list` shows",
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := letterNumber(args[0])
			if err != nil {
				return err
			}
			return g.reading(cmd.Context(), func(from reader.Source) error { return showDead(cmd.Context(), g, from, seq) })
		},
	}, replayCmd(g, seqArg))
	return cmd
}

func replayCmd(g *global, seqArg cobra.PositionalArgs) *cobra.Command {
	again := false
	cmd := &cobra.Command{
		Use: "replay N", Short: "Call again with the input of a dead letter, as its actor", Args: seqArg,
		Long: `Makes a dispatcher call the tool again with the input of a dead letter, as its actor and in its tenant.
The idempotency key is made from the letter: a second replay prints the stored outcome of the first. --again makes
another call, which can have a second effect. The audit record names you and the actor. Chunks are not printed. The
exit code is that of the outcome, as for "call".`,
		Example: "  toolbus dead replay 3\n  toolbus dead replay 3 --again",
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := letterNumber(args[0])
			if err != nil {
				return err
			}
			word := ""
			if again {
				word = uuid.NewString()
			}
			return replayDead(cmd.Context(), g, seq, word)
		},
	}
	cmd.Flags().BoolVar(&again, "again", false,
		"make another call, even if the letter was replayed before; it can have a second effect")
	return cmd
}

func letterNumber(n string) (uint64, error) {
	seq, err := strconv.ParseUint(n, 10, 64)
	if err != nil || seq == 0 {
		return 0, usagef("%q is not the number of a dead letter; `toolbus dead list` shows them", n)
	}
	return seq, nil
}

func listDead(ctx context.Context, g *global, from reader.Source) error {
	letters, err := deadletter.DeadLetters(ctx, from)
	if err != nil {
		return err
	}
	all, err := lookAtLetters(ctx, g.env.stderr, from, slices.DeleteFunc(letters,
		func(d deadletter.Message) bool { return !g.sees(d.State.Tenant) }))
	switch {
	case err != nil:
		return err
	case g.json:
		return cli.WriteJSON(g.env.stdout, all)
	case len(all) == 0:
		fmt.Fprintln(g.env.stderr, "there are no dead letters")
	}
	t := table{header: []string{"N", "TIME", "TOOL", "ATTEMPT", "BECAME", "REF", "TENANT", "BY"}}
	for _, d := range all {
		t.add(fmt.Sprint(d.Seq), d.Time.UTC().Format(time.RFC3339), d.State.Tool, fmt.Sprint(d.Attempt),
			string(d.Cause.Code), d.Ref, unusual(d.State.Tenant), "")
		for _, r := range d.Replays {
			t.add("replay", r.Time.UTC().Format(time.RFC3339), "", "", r.Became(), r.Ref, unusual(r.Tenant), r.By)
		}
	}
	return t.write(g.env.stdout)
}

func showDead(ctx context.Context, g *global, from reader.Source, seq uint64) error {
	d, err := deadletter.DeadLetterAt(ctx, from, seq)
	if err != nil {
		return err
	}
	if !g.sees(d.State.Tenant) {
		return fmt.Errorf("dead letter %d is not of tenant %q but of %q", d.Seq, g.tenant, d.State.Tenant)
	}
	all, err := lookAtLetters(ctx, g.env.stderr, from, []deadletter.Message{d})
	if err != nil {
		return err
	}
	return g.print(all[0], all[0].Write)
}

// replayDead has a dispatcher replay a dead letter, and waits for the outcome. The dispatcher makes the same call if
// the same request arrives again, so replayDead repeats a request whose answer was lost.
func replayDead(ctx context.Context, g *global, letter uint64, again string) error {
	return g.operatingAs(ctx, byFlags, func(c *admin.Client) error { return g.replay(ctx, c, letter, again) })
}

// replay asks for the outcome of a replay until the call has it.
func (g *global) replay(ctx context.Context, c *admin.Client, letter uint64, again string) error {
	said := false
	for pause := firstAsked; ; pause = min(2*pause, lastAsked) {
		a, err := c.ReplayDeadLetter(ctx, letter, again)
		switch {
		case err != nil && (ctx.Err() != nil || !mayAskAgain(err)):
			return err
		case err == nil && a.Response != nil:
			if !said && a.Response.Provenance.Replayed {
				fmt.Fprintln(g.env.stderr, "this letter was replayed before, and this is the outcome; --again makes another call")
			}
			return showReplay(g, a)
		case err == nil && !said:
			said = true
			fmt.Fprintf(g.env.stderr, "replaying as %s in tenant %s: %s\n", cli.EscapeCell(a.Actor), cli.EscapeCell(a.Tenant),
				cli.EscapeCell(a.Ref))
		}
		if !timer.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// Pauses between requests for the outcome of a replay.
const (
	firstAsked = 50 * time.Millisecond
	lastAsked  = 2 * time.Second
)

// mayAskAgain reports whether a later request may succeed: the answer was lost, or the bus is busy.
func mayAskAgain(err error) bool {
	return toolbus.CodeOf(err).AutoRetry() || errors.Is(err, context.DeadlineExceeded)
}

// showReplay prints the outcome of a replay. Only the actor may read a large output.
func showReplay(g *global, a envelope.ResultResponse) error {
	r := a.Response
	if o := r.Provenance.OutputRef; o != nil {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the output has %d bytes and is not shown: %s in tenant %s reads it by "+
			"`toolbus result %s`", o.Bytes, a.Actor, a.Tenant, a.Ref))
	}
	return printOutcome(g, r, a.Ref)
}
