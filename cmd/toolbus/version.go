package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func versionCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version and the commit", Example: "  toolbus version --json",
		GroupID: "operate", Args: cli.NoArgs,
		Long: `Prints the version, with the first 12 digits of the commit, and the whole commit. A program that
"go install" made from a version of the module does not know its commit: it prints that version, and the checksum of
the module as the checksum database has it.`,
		RunE: func(*cobra.Command, []string) error {
			b := cli.CurrentBuild()
			return g.print(b, func(w io.Writer) error { return writeBuild(w, b) })
		},
	}
}

func writeBuild(w io.Writer, b cli.Build) error {
	text := "toolbus " + b.Version + "\n"
	switch {
	case b.Module != "":
		text += fmt.Sprintf("module: %s %s\n", b.Module, b.Sum)
	case b.Commit != "":
		text += "commit: " + b.Commit + "\n"
	default:
		text += "commit: not recorded by the build\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
