package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func executorsCmd(g *global) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "executors", Short: "List the executors that run", GroupID: "operate",
		Example: "  toolbus executors list",
	})
	pool := ""
	list := &cobra.Command{
		Use: "list", Short: "List the executors that run, with their load", Args: cli.NoArgs,
		Long: `Lists the executors whose heartbeats have not expired, by pool: id, machine, process, version of Toolbus, how
many calls run and how many may, and since when the executor runs. The load is that of the newest heartbeat, a few
seconds old. An executor that was killed is listed until its heartbeat expires. It needs the credentials of an operator.

Exit codes: 0 listed, also if no executor runs; 11 the bus refused, with the reason.`,
		Example: "  toolbus executors list\n  toolbus executors list --pool gpu --json --credentials operator.token",
		RunE:    func(cmd *cobra.Command, _ []string) error { return listExecutors(cmd.Context(), g, pool) },
	}
	list.Flags().StringVar(&pool, "pool", "", "only executors of this `POOL`")
	completeFlag(list, "pool", cobra.NoFileCompletions)
	cmd.AddCommand(list)
	return cmd
}

func listExecutors(ctx context.Context, g *global, pool string) error {
	all := []envelope.ExecutorInfo{}
	err := g.operating(ctx, func(c *admin.Client) error {
		for e, err := range c.Executors(ctx) {
			if err != nil {
				return err
			}
			if pool == "" || e.Pool == pool {
				all = append(all, e)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return g.print(all, func(w io.Writer) error { return writeExecutors(w, all) })
}

func writeExecutors(to io.Writer, all []envelope.ExecutorInfo) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(to, "no executor runs")
		return err
	}
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tPOOL\tHOST\tPID\tVERSION\tRUNNING\tSINCE")
	for _, e := range all {
		pid, running, since := "–", "–", "–" // an older build does not report them
		if e.PID > 0 {
			pid = strconv.Itoa(e.PID)
		}
		if e.Slots > 0 {
			running, since = fmt.Sprintf("%d of %d", e.Running, e.Slots), e.Since.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cli.EscapeCell(e.Instance), cli.EscapeCell(e.Pool),
			cmp.Or(cli.EscapeCell(e.Host), "–"), pid,
			cmp.Or(cli.EscapeCell(e.Version), "–"), running, since)
	}
	return w.Flush()
}
