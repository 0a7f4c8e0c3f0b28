package mcpcmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/clientconfig"
)

func uninstall(env cli.Env) *cobra.Command {
	c, force := &choice{}, false
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Restore the servers of an MCP client",
		Args:  cli.NoArgs,
		Long: `Puts the servers back that "toolbus mcp install --write" has replaced. A configuration that was not changed
since is restored byte for byte. If it was changed, the entry of the bus is removed, the replaced servers are put back,
and everything else stays. With --force it becomes the former one in any case, and changes since are lost.`,
		Example: "  toolbus mcp uninstall --client claude-desktop\n  toolbus mcp uninstall --config ./mcp.json",
		RunE: func(*cobra.Command, []string) error {
			l, _, err := c.find(env)
			if err != nil {
				return err
			}
			if !c.named() {
				return unnamed()
			}
			u, err := clientconfig.Uninstall(l, force)
			if err != nil {
				return err
			}
			return undone(env, l.File, u)
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "restore the former file, even if changes since are lost")
	return cmd
}

// undone prints how the configuration was restored.
func undone(env cli.Env, file string, u clientconfig.Undone) (err error) {
	switch {
	case u.Removed:
		_, err = fmt.Fprintf(env.Stdout, "%s is removed: there was none before\n", file)
	case u.Changed:
		_, err = fmt.Fprintf(env.Stdout, "%s was changed since: it has its servers back, and the changes stay\n", file)
	default:
		_, err = fmt.Fprintf(env.Stdout, "%s is as it was\n", file)
	}
	for _, name := range u.Again {
		fmt.Fprintf(env.Stdout, "  %s was added again since: it stays as it is now\n", cli.EscapeCell(name))
	}
	return err
}
