package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/tool/process/protocol"
	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools"
)

// chooseTools writes the example tools to the state folder and serves them, if they are asked for. Otherwise the folder
// of --tools must exist.
func (d *development) chooseTools(cmd *cobra.Command) error {
	if !d.examples {
		_, err := os.Stat(d.node.Tools)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the folder %s does not exist: name that of your tools with --tools, write a tool with "+
				"`toolbus tools new NAME --lang python`, or run the example tools with --examples", d.node.Tools)
		}
		return nil // what else is wrong with it, its reader says
	}
	if cmd.Flags().Changed("tools") {
		return usagef("--examples has a folder of its own: leave out --tools")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the toolbus command: %w", err)
	}
	if d.node.Tools, err = filepath.Abs(filepath.Join(cmp.Or(d.state, d.env.exampleState()), "examples")); err != nil {
		return err
	}
	if err := tools.Write(d.node.Tools, self, "dev", "tool"); err != nil {
		return fmt.Errorf("write the example tools: %w", err)
	}
	return nil
}

// devToolCmd is the program of the example tools.
func devToolCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "tool NAME", Short: "Be the program of an example tool", Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("name the program of an example tool")
			}
			t, err := tools.Program(args[0], args[1:], g.env.variable)
			if err != nil {
				return err
			}
			if err = program.Run(cmd.Context(), t, g.env.stdin, g.env.stdout); err != nil {
				fmt.Fprintln(g.env.stderr, protocol.FaultLine(err))
				return exitError(1)
			}
			return nil
		},
	}
}

// variable returns the value of a variable of the process, or "".
func (e *environment) variable(name string) string {
	for _, entry := range e.environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
