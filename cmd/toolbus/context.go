package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// bookmark is a context for output.
type bookmark struct {
	Name string `json:"name"`
	Used bool   `json:"used"`
	cli.Access
}

func contextCmd(g *global) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "context", Short: "Save servers and credentials under names", GroupID: "use",
		Long: `A context is a file with a server, a credentials file, TLS files and a tenant. A command uses the
context of --context, else of TOOLBUS_CONTEXT, else the one of "context use". Flags take precedence over the
environment, and both over a context. If --server or TOOLBUS_URL names a server, the context of "context use" is
ignored.`,
		Example: `  toolbus context add prod --server tls://bus:4222 --tls-ca ca.pem --credentials ~/prod.token --tenant acme
  toolbus context use prod
  toolbus --context prod tools list`,
	})
	cmd.AddCommand(contextAddCmd(g), contextUseCmd(g), contextListCmd(g), contextShowCmd(g), contextRemoveCmd(g))
	return cmd
}

func contextAddCmd(g *global) *cobra.Command {
	var replace bool
	cmd := &cobra.Command{
		Use: "add NAME --server URL", Short: "Save a server, credentials, TLS files and a tenant under a name",
		Args:              cli.Args(1, 1, "a name"),
		ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  toolbus context add local --server nats://127.0.0.1:4280\n" +
			"  toolbus context add prod --server tls://bus:4222 --tls-ca ca.pem --tls-cert me.pem --tls-key me.key",
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := g.reach.Given.Absolute()
			if err != nil {
				return err
			}
			if g.given("tenant") {
				a.Tenant = g.tenant
			}
			if a.Server == "" {
				return usagef("a context needs a server: name it with --server")
			}
			if err := a.Into(new(toolbus.Options)); err != nil {
				return err
			}
			if err := g.contexts().Write(args[0], a, replace); err != nil {
				return err
			}
			if _, err := os.Stat(a.Credentials); a.Credentials != "" && err != nil {
				fmt.Fprintf(g.env.stderr, "the credentials cannot be read yet: %v\n", err)
			}
			b, line := g.bookmark(args[0], a), "added; use it with `toolbus context use "+args[0]+"`"
			if b.Used {
				line = "replaced; it is in use"
			}
			return g.say(b, line)
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false,
		"replace the context of that name")
	return cmd
}

func contextUseCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Use a context if --context and TOOLBUS_CONTEXT are not set", Args: cli.Args(1, 1, "a name"),
		Example: "  toolbus context use prod", ValidArgsFunction: g.completeContexts(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := g.contexts().Use(args[0]); err != nil {
				return err
			}
			a, err := g.contexts().Read(args[0])
			if err != nil {
				return err
			}
			if g.env.url != "" {
				fmt.Fprintln(g.env.stderr, "TOOLBUS_URL is set and wins over it: unset it, or name the context by --context")
			}
			return g.say(g.bookmark(args[0], a), "using "+args[0]+": "+bus.Redacted(a.Server))
		},
	}
}

func contextListCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the contexts", Args: cli.NoArgs,
		Example: "  toolbus context list\n  toolbus context list --json",
		RunE: func(*cobra.Command, []string) error {
			names, err := g.contexts().Names()
			if err != nil {
				return err
			}
			all := make([]bookmark, 0, len(names))
			for _, name := range names {
				a, err := g.contexts().Read(name)
				if err != nil {
					return err
				}
				all = append(all, g.bookmark(name, a))
			}
			return g.print(all, func(w io.Writer) error { return listContexts(w, all) })
		},
	}
}

func listContexts(out io.Writer, all []bookmark) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no contexts; add one with `toolbus context add NAME --server URL`")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "USED\tNAME\tSERVER\tTENANT\tCREDENTIALS\tTLS")
	for _, b := range all {
		used := ""
		if b.Used {
			used = "*"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", used, b.Name, cli.EscapeCell(b.Server),
			cli.EscapeCell(cmp.Or(b.Tenant, "-")),
			cli.EscapeCell(cmp.Or(b.Credentials, "-")), security(b.Access))
	}
	return w.Flush()
}

// security names the TLS files of a context.
func security(a cli.Access) string {
	switch {
	case a.Cert != "":
		return "own certificate"
	case a.CA != "":
		return "own authority"
	}
	return "-"
}

func contextShowCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "show [NAME]", Short: "Show a context (default: the one in use)", Args: cli.Args(0, 1, "at most one name"),
		Example: "  toolbus context show\n  toolbus context show prod --json", ValidArgsFunction: g.completeContexts(1),
		RunE: func(_ *cobra.Command, args []string) (err error) {
			name := ""
			if len(args) > 0 {
				name = args[0]
			} else if name, err = g.contexts().Current(); err != nil {
				return err
			}
			if name == "" {
				return usagef("no context is in use; name one, or use one with `toolbus context use NAME`")
			}
			a, err := g.contexts().Read(name)
			if err != nil {
				return err
			}
			b := g.bookmark(name, a)
			return g.print(b, func(w io.Writer) error { return showContext(w, b) })
		},
	}
}

func showContext(out io.Writer, b bookmark) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, row := range [][2]string{{"name", b.Name}, {"server", b.Server}, {"tenant", b.Tenant},
		{"credentials", b.Credentials}, {"tls ca", b.CA}, {"tls cert", b.Cert}, {"tls key", b.Key}} {
		if row[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", row[0], cli.EscapeCell(row[1]))
		}
	}
	return w.Flush()
}

func contextRemoveCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove a context, but not the files that it names", Args: cli.Args(1, 1, "a name"),
		Example: "  toolbus context remove prod", ValidArgsFunction: g.completeContexts(1),
		RunE: func(_ *cobra.Command, args []string) error {
			wasUsed, err := g.contexts().Remove(args[0])
			if err != nil {
				return err
			}
			line := "removed " + args[0]
			if wasUsed {
				line += "; no context is in use now"
			}
			return g.say(map[string]any{"name": args[0], "was_used": wasUsed}, line)
		},
	}
}

func (g *global) contexts() cli.Contexts { return g.reach.Env.Contexts() }

// bookmark returns a context for output, without secrets in its URL.
func (g *global) bookmark(name string, a cli.Access) bookmark {
	current, _ := g.contexts().Current() // an unreadable setting counts as none
	a.Server = bus.Redacted(a.Server)
	return bookmark{Name: name, Used: name == current, Access: a}
}

// completeContexts completes names of contexts, if the command takes most arguments.
func (g *global) completeContexts(most int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		names, err := g.contexts().Names()
		if err != nil || len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
