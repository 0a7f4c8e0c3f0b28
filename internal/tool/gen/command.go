package gen

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// command is the command line of one format.
type command struct {
	env        cli.Env
	format     Format
	tools      string
	out, check string
}

// Command returns the command that writes what tools are.
func Command(env cli.Env) *cobra.Command {
	family := cli.Family(&cobra.Command{
		Use:     "gen",
		Short:   "Write what tools are in the formats of others",
		GroupID: "use",
		Long: `Writes what the manifests of a folder of tools say in a format that others read. The same tools always give the
same bytes, so that what is kept can be compared with --check, as in CI. Needs no running bus.`,
		Example: `  toolbus gen openapi > openapi.json
  toolbus gen contracts --tools ./tools --out docs/contracts.md
  toolbus gen mcp --tools ./tools --check mcp.json`,
	})
	for _, f := range Formats() {
		c := &command{env: env, format: f}
		cmd := &cobra.Command{
			Use: f.Name, Short: f.Short, Args: cli.NoArgs, Example: "  toolbus gen " + f.Name + " --tools ./tools",
			RunE: func(*cobra.Command, []string) error { return c.run() },
		}
		cmd.Flags().StringVar(&c.tools, "tools", "tools", "folder of tools")
		cmd.Flags().StringVarP(&c.out, "out", "o", "", "file to write; by default standard output")
		cmd.Flags().
			StringVar(&c.check, "check", "", "write nothing, and fail unless this file is what would be written")
		cmd.MarkFlagsMutuallyExclusive("out", "check")
		family.AddCommand(cmd)
	}
	return family
}

var errDiffers = errors.New("is not what the tools are")

func (c *command) run() error {
	r, err := tool.Load(c.tools, app.Transports()...)
	if err != nil {
		return err
	}
	made, err := c.format.Write(r)
	switch {
	case err != nil:
		return err
	case c.check != "":
		old, err := os.ReadFile(c.check)
		if err == nil && !bytes.Equal(old, made) {
			err = fmt.Errorf("%s %w: write it anew with --out", c.check, errDiffers)
		}
		return err
	case c.out != "":
		return os.WriteFile(c.out, made, 0o644)
	}
	_, err = c.env.Stdout.Write(made)
	return err
}
