package mcpcmd

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
)

// Approve returns the command that shows and approves changes of imported tools.
func Approve(env cli.Env) *cobra.Command {
	o := importer.Options{Environ: env.Environ, Version: cli.Version(), Transports: app.Transports()}
	all := false
	var login signIn
	cmd := &cobra.Command{
		Use:   "approve [TOOL...]",
		Short: "Show and approve changes that MCP servers made to imported tools",
		Long: `Asks the MCP servers for the current definitions of imported tools, and prints the differences from the
approved ones. With names of tools, or --all, it approves them: it writes schemas, descriptions that nobody has
edited, the digest and the version of the server to the manifests, under a higher version. An effect class becomes
stricter if the server says so, but never less strict.

Without names it writes nothing. The exit code is then 1 if changes wait for approval. Tools that a server offers and
that were not imported are named, too: import the server again to add them. So is a server with another version whose
tools are as approved, which need no approval.`,
		Example: "  toolbus tools approve\n  toolbus tools approve mcp::memory::read_graph",
		RunE: func(cmd *cobra.Command, ids []string) (err error) {
			if all && len(ids) > 0 {
				return cli.Usagef("--all is for all tools: leave %q out", ids[0])
			}
			if o.Dir, err = filepath.Abs(o.Dir); err != nil {
				return err
			}
			if o.Login, err = login.function(cmd, env); err != nil {
				return err
			}
			changes, err := importer.Compare(cmd.Context(), o, ids)
			if err != nil {
				return err
			}
			if asJSON, err := cmd.Flags().GetBool("json"); err == nil && asJSON {
				err = cli.WriteJSON(env.Stdout, changes)
				return errors.Join(err, settle(io.Discard, changes, all || len(ids) > 0))
			}
			return settle(env.Stdout, changes, all || len(ids) > 0)
		},
	}
	cmd.Flags().StringVar(&o.Dir, "tools", "tools", "folder of tools")
	login.flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "take over all that has changed")
	return cmd
}

// settle prints the changes, and approves them if approved is true.
func settle(out io.Writer, changes []importer.Change, approved bool) error {
	waiting, unknown, imported := 0, 0, 0
	for _, c := range changes {
		show(out, c)
		if c.State == importer.Offered {
			continue
		}
		imported++
		switch {
		case c.State == importer.LeftOut:
			unknown++
		case c.State == importer.Same:
		case approved:
			if err := c.Approve(); err != nil {
				return fmt.Errorf("%s: %w", c.ID, err)
			}
			fmt.Fprintf(out, "%s: approved; `toolbus dev` sees it at once, restart other executors and dispatchers\n", c.ID)
		case c.State == importer.Changed:
			waiting++
		}
	}
	if !approved {
		showMoved(out, changes)
	}
	switch {
	case unknown > 0:
		return fmt.Errorf("of %d of %d tools it is not known what they are now", unknown, imported)
	case waiting > 0:
		return fmt.Errorf("%d of %d tools wait for `toolbus tools approve`", waiting, imported)
	}
	says := fmt.Sprintf("%d tools are what was approved", imported)
	if imported == 0 {
		says = "no tools are imported here: `toolbus tools import-mcp` imports those of a server"
	}
	_, err := fmt.Fprintln(out, says)
	return err
}

// show prints what is different about a tool.
func show(out io.Writer, c importer.Change) {
	switch c.State {
	case importer.Offered:
		fmt.Fprintf(out, "server %s offers %s, which was not imported: import the server again to add it\n", c.Server,
			cli.EscapeCell(c.Offers))
	case importer.LeftOut:
		fmt.Fprintf(out, "%s: unknown: %s\n", c.ID, cli.EscapeCell(c.Why))
	case importer.Changed:
		fmt.Fprintf(out, "%s: changed at server %s\n", c.ID, c.Server)
		for _, line := range c.Lines {
			fmt.Fprintln(out, "  "+cli.EscapeCell(line))
		}
	}
}

// showMoved prints the servers that have another version than at the import or the last approval.
func showMoved(out io.Writer, changes []importer.Change) {
	shown := map[string]bool{}
	for _, c := range changes {
		line := fmt.Sprintf("server %s has version %s now, and its tools are of version %s: approve with names or --all "+
			"writes that to their manifests\n", c.Server, c.ServerVersion, cli.EscapeCell(c.Imported))
		if c.ServerVersion != "" && !shown[line] {
			shown[line] = true
			fmt.Fprint(out, line)
		}
	}
}
