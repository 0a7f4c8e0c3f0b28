package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/scaffold"
)

func toolsNew(g *global) *cobra.Command {
	language, dir := "", ""
	cmd := &cobra.Command{
		Use: "new NAME", Short: "Write a new tool: manifest, program and test", Args: cli.Args(1, 1, "one tool id"),
		Long: `Writes a tool that works, into a new folder below DIR: its manifest, the schemas of its input and output, a
program, and a test of the program. Then it prints the commands that test, check, serve and call the tool. It never
changes a folder that exists. docs/writing-tools.md explains what it writes.

NAME is the id of the tool: lower-case letters, digits and . _ -, optionally namespaced as in local::fs.write. A Go
program gets a go.mod, unless DIR lies in a module. The program in shell needs jq.

Exit codes: 0 the tool is written, 1 there is a folder of that name, or it cannot be written, 2 NAME is not a tool id,
or the language is missing or unknown.`,
		Example: "  toolbus tools new greet --lang python\n  toolbus tools new search.web --lang go --tools ./tools",
		RunE: func(_ *cobra.Command, args []string) error {
			made, err := newTool(dir, args[0], scaffold.Language(language))
			if err != nil {
				return err
			}
			return g.print(made, func(w io.Writer) error { return made.text(w, dir) })
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&language, "lang", "", "`LANGUAGE` of the program: go, python, node or shell")
	cmd.Flags().StringVar(&dir, "tools", "tools", "`DIR` with one folder for each tool")
	completeFlag(cmd, "lang", values(scaffold.Languages()))
	return cmd
}

// newTool writes a new tool into a folder of tools.
func newTool(dir, id string, l scaffold.Language) (t writtenTool, err error) {
	if l == "" {
		return t, usagef("name the language with --lang: go, python, node or shell")
	}
	if err := scaffold.Check(id, l); err != nil {
		return t, usagef("%v", err)
	}
	t.Tool, err = scaffold.Write(dir, id, l)
	if errors.Is(err, fs.ErrExist) {
		return t, fmt.Errorf("%w: choose another name, or remove it", err)
	}
	return t, err
}

// writtenTool prints a tool that was written.
type writtenTool struct{ scaffold.Tool }

// text prints the files, and the commands that come next.
func (t writtenTool) text(w io.Writer, dir string) (err error) {
	say := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	for _, name := range t.Files {
		say("wrote %s", cli.EscapeText(filepath.Join(t.Folder, name)))
	}
	say("next:")
	say("  (cd %s && %s)", cli.EscapeText(quotedFolder(t.Folder)), t.Test)
	say("  toolbus tools lint %s", cli.EscapeText(quotedFolder(dir)))
	say("  toolbus dev --tools %s", cli.EscapeText(quotedFolder(dir)))
	say("  toolbus call %s --input '{\"name\":\"Ada\"}'", t.ID)
	return err
}
