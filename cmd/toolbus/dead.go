package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/archive"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/identity"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/letter"
	"github.com/seed-018f16cc/toolbus/internal/plain"
	"github.com/seed-018f16cc/toolbus/record"
	"github.com/seed-018f16cc/toolbus/subjects"
)

func deadCmd(g *global) *cobra.Command {
	cmd := cli.Family(&cobra.Command{Use: "dead", Short: "See and replay calls that could not be run", GroupID: "operate"})
	seqArg := cli.Args(1, 1, "the number of a dead letter")
	cmd.AddCommand(&cobra.Command{
		Use: "list", Short: "List the dead letters of all tenants, or of one", Args: cli.NoArgs,
		Long: `Lists the dead letters, and when each was asked for again, if it was: that is the newest request on
record for the same tool and input, in the same trace, as "dead replay" makes one.`,
		Example: "  toolbus dead list\n  toolbus dead list --tenant acme --json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return listDead(cmd.Context(), g) },
	}, &cobra.Command{
		Use: "show N", Short: "Show one: what was asked, why it was given up, its history; --json shows all", Args: seqArg,
		Example: "  toolbus dead show 3  # a number that `toolbus dead list` shows",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withDead(cmd.Context(), g, args[0], func(from archive.Archive, d record.DeadLetter) error {
				return showDead(cmd.Context(), g, from, d)
			})
		},
	}, &cobra.Command{
		Use: "replay N", Short: "Ask for it again, as a new request with a new key", Args: seqArg,
		Long: `Asks again for what a dead letter asked for: with a key of its own, and else as it was. It acts as the
actor who asked, in that tenant; --actor and --tenant name others.`,
		Example: "  toolbus dead replay 3\n  toolbus dead replay 3 --actor agent://operator",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withDead(cmd.Context(), g, args[0], func(_ archive.Archive, d record.DeadLetter) error {
				return replayDead(cmd.Context(), g, d)
			})
		},
	})
	return cmd
}

func listDead(ctx context.Context, g *global) error {
	from, done, err := g.archive(ctx)
	if err != nil {
		return err
	}
	defer done()
	letters, err := archive.DeadLetters(ctx, from)
	if err != nil {
		return err
	}
	all, err := letter.Look(ctx, g.env.stderr, from, slices.DeleteFunc(letters,
		func(d record.DeadLetter) bool { return !g.sees(d.State.Tenant) }))
	switch {
	case err != nil:
		return err
	case g.json:
		return plain.JSON(g.env.stdout, all)
	case len(all) == 0:
		fmt.Fprintln(g.env.stderr, "there are no dead letters")
	}
	w := tabwriter.NewWriter(g.env.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "N\tTIME\tTOOL\tATTEMPT\tCAUSE\tASKED AGAIN\tREF\tTENANT")
	for _, d := range all {
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", d.Seq, d.Time.UTC().Format(time.RFC3339), plain.Text(d.State.Tool),
			d.Attempt, d.Cause.Code, d.When(), d.Ref, unusual(d.State.Tenant))
	}
	return w.Flush()
}

func showDead(ctx context.Context, g *global, from archive.Archive, d record.DeadLetter) error {
	if !g.sees(d.State.Tenant) {
		return fmt.Errorf("dead letter %d is not of tenant %q but of %q", d.Seq, g.tenant, d.State.Tenant)
	}
	all, err := letter.Look(ctx, g.env.stderr, from, []record.DeadLetter{d})
	if err != nil {
		return err
	}
	return g.print(all[0], all[0].Write)
}

func withDead(ctx context.Context, g *global, n string, do func(archive.Archive, record.DeadLetter) error) error {
	seq, err := strconv.ParseUint(n, 10, 64)
	if err != nil || seq == 0 {
		return usagef("%q is not the number of a dead letter; `toolbus dead list` shows them", n)
	}
	from, done, err := g.archive(ctx)
	if err != nil {
		return err
	}
	defer done()
	d, err := archive.DeadLetterAt(ctx, from, seq)
	if err != nil {
		return err
	}
	return do(from, d)
}

func replayDead(ctx context.Context, g *global, d record.DeadLetter) error {
	bus, err := g.access()
	if err != nil {
		return err
	}
	req, err := buried(ctx, g, bus, d)
	if err != nil {
		return fmt.Errorf("dead letter %d: %w", d.Seq, err)
	}
	by := g.self(identity.Agent)
	if !g.given("tenant") {
		by.Tenant = d.State.Tenant
	}
	if !g.given("actor") {
		by.Actor = req.Context.ActorID
	}
	guest, err := g.connectAs(ctx, bus, by)
	if err != nil {
		return err
	}
	defer guest.close()
	fmt.Fprintf(g.env.stderr, "asking anew as %s in tenant %s\n", plain.Text(by.Actor), plain.Text(by.Tenant))
	g.lines = req.Constraints.PreferStreaming
	return perform(ctx, g, guest.client, anew(req), g.lines)
}

// fetchTime bounds the wait for a large input.
const fetchTime = 30 * time.Second

// buried returns the request of a dead letter, with its input, wherever that lies.
func buried(ctx context.Context, g *global, bus cli.Access, d record.DeadLetter) (*envelope.Request, error) {
	body, req, err := letter.Asked(d)
	if err != nil {
		return nil, err
	}
	if body.InputRef == "" {
		return req, nil
	}
	ref := envelope.ParsePayloadRef(body.InputRef)
	if ref == nil {
		return nil, fmt.Errorf("%q is no reference to an input", body.InputRef)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	of := ownerOf(d)
	guest, err := g.connectAs(ctx, bus, identity.Principal{
		Tenant: of.Tenant, Actor: of.Actor, Role: identity.Agent, Scopes: []string{identity.ScopeAll},
	})
	if err != nil {
		return nil, err
	}
	defer guest.close()
	if req.Input, err = app.OpenPayloads(guest.conn.JS).Get(ctx, of.On(d.State.Pool), *ref); err != nil {
		return nil, fmt.Errorf("its large input cannot be had any more: %w; ask for it with `toolbus call %s --input @FILE`",
			err, req.ToolID)
	}
	return req, nil
}

// ownerOf says whose the large input of a dead letter is.
func ownerOf(d record.DeadLetter) subjects.Owner {
	a, _ := d.State.Attempt(d.Attempt)
	return subjects.Owner{Tenant: d.State.Tenant, Actor: a.Owner.Actor}
}

// anew is the call that a request asked for, with a key that nobody has used.
func anew(r *envelope.Request) toolbus.Call {
	k := r.Constraints
	return toolbus.Call{
		Tool: r.ToolID, Version: r.ToolVersion, Fn: r.Fn, Input: r.Input, DryRun: r.DryRun, Context: r.Context,
		Provenance: r.Provenance, Timeout: time.Duration(k.TimeoutMS) * time.Millisecond,
		Key: "replay-" + uuid.NewString(), KeyScope: k.IdempotencyScope, Priority: k.Priority, Retry: k.RetryPolicy,
		CacheKey: k.CacheKey, Budget: k.Budget, MemoryMBLimit: k.MemoryMBLimit, NetAllowlist: k.NetAllowlist,
	}
}
