package gen

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
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

// Command returns the command "gen".
func Command(env cli.Env) *cobra.Command {
	family := cli.Group(&cobra.Command{
		Use:     "gen",
		Short:   "Generate alerts, OpenAPI, JSON Schema, MCP or Markdown from manifests",
		GroupID: "use",
		Long: `Generates a document from the manifests of a folder of tools. The same tools give the same bytes: keep
the document and compare it with --check in CI. It needs no running bus.`,
		Example: `  toolbus gen openapi > openapi.json
  toolbus gen contracts --tools ./tools --out docs/contracts.md
  toolbus gen alerts --tools ./tools --out observability/alerts.yml
  toolbus gen mcp --tools ./tools --check mcp.json`,
	})
	for _, f := range Formats() {
		c := &command{env: env, format: f}
		cmd := &cobra.Command{
			Use: f.Name, Short: f.Short, Args: cli.NoArgs, Example: "  toolbus gen " + f.Name + " --tools ./tools",
			RunE: func(*cobra.Command, []string) error { return c.run() },
		}
		cmd.Flags().StringVar(&c.tools, "tools", "tools", "`DIR` with one folder for each tool")
		cmd.Flags().StringVarP(&c.out, "out", "o", "", "`FILE` to write (default: standard output)")
		cmd.Flags().
			StringVar(&c.check, "check", "", "`FILE` to compare with: write nothing, and exit with 1 if it differs")
		cmd.MarkFlagsMutuallyExclusive("out", "check")
		family.AddCommand(cmd)
	}
	return family
}

var errDiffers = errors.New("is not what the tools are")

func (c *command) run() error {
	r, err := tool.Load(c.tools, app.Transports()...)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w\nname the folder of the tools with --tools DIR", err)
	}
	if err != nil {
		return err
	}
	made, err := c.format.Write(r)
	if c.format.Name == "alerts" && bytes.Contains(made, []byte(noObjectives)) {
		fmt.Fprintln(c.env.Stderr, "no tool declares tier T2, T3 or T4 in its manifest: the rules about errors and times of "+
			"tools have no objective, and never fire")
	}
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
