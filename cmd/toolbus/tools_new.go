package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/scaffold"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

func toolsNew(g *global) *cobra.Command {
	var spec scaffold.Spec
	dir := ""
	cmd := &cobra.Command{
		Use: "new NAME", Short: "Write a new tool: manifest, program and test", Args: cli.Args(1, 1, "one tool id"),
		Long: `Writes a tool that works, into a new folder below DIR: its manifest, the schemas of its input and output, a
program, and a test of the program. Then it prints the commands that test, check, serve and call the tool. It never
changes a folder that exists. docs/writing-tools.md explains what it writes.

NAME is the id of the tool: lower-case letters, digits and . _ -, optionally namespaced as in local::fs.write. A Go
program gets a go.mod, unless DIR lies in a module. That of a released build requires its version of Toolbus.
Another build warns, and says how to use a clone. The program in shell needs jq. A warning names each needed program
that is not in PATH.

The effect class decides what happens after a crash: a call of a pure or idempotent tool runs again, one of a
side_effectful tool runs once, and its lookup is asked. A tool of the last two classes commits its effect under the key
of its call; its program has a lookup.

Exit codes: 0 the tool is written, 1 there is a folder of that name, or it cannot be written, 2 NAME is not a tool id,
the language is missing or unknown, or the class is unknown.`,
		Example: "  toolbus tools new greet --lang python\n  toolbus tools new search.web --lang go --tools ./tools\n" +
			"  toolbus tools new mail.send --lang node --class side_effectful",
		RunE: func(_ *cobra.Command, args []string) error {
			spec.ID = args[0]
			if info, ok := debug.ReadBuildInfo(); ok {
				spec.Module = cli.Published(info)
			}
			made, err := newTool(dir, spec)
			if err != nil {
				return err
			}
			g.env.warnMissing(spec)
			if spec.Module == "" && slices.Contains(made.Files, "go.mod") {
				fmt.Fprintf(g.env.stderr, unreleased, cli.Version())
			}
			return g.print(made, func(w io.Writer) error { return made.text(w, dir) })
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar((*string)(&spec.Language), "lang", "", "`LANGUAGE` of the program: go, python, node or shell")
	cmd.Flags().StringVar((*string)(&spec.Class), "class", string(scaffold.Pure),
		"effect `CLASS`: pure (changes nothing), idempotent (a second run with the same key changes nothing more) or "+
			"side_effectful (a call runs once)")
	cmd.Flags().StringVar(&dir, "tools", "tools", "`DIR` with one folder for each tool")
	completeFlag(cmd, "lang", values(scaffold.Languages()))
	completeFlag(cmd, "class", values(scaffold.Classes()))
	return cmd
}

// unreleased is the warning about a go.mod that requires no version of Toolbus.
const unreleased = "warning: this toolbus (%s) is not built from a released version, so go.mod requires none: clone " +
	"its repository, and run `go mod edit -replace github.com/seed-018f16cc/toolbus=CLONE` beside go.mod\n"

// newTool writes a new tool into a folder of tools.
func newTool(dir string, s scaffold.Spec) (t writtenTool, err error) {
	if s.Language == "" {
		return t, usagef("name the language with --lang: go, python, node or shell")
	}
	if err := s.Check(); err != nil {
		return t, usagef("%v", err)
	}
	t.Tool, err = scaffold.Write(dir, s)
	if at, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrExist) {
		return t, fmt.Errorf("the tool %s exists already: choose another name, or remove the folder %s", s.ID, at.Path)
	}
	return t, err
}

// warnMissing prints a warning for each program that a tool needs and PATH does not have.
func (e *environment) warnMissing(s scaffold.Spec) {
	for _, program := range s.Needs() {
		if _, err := supervisor.Locate(program, "", e.variable("PATH")); err != nil {
			fmt.Fprintf(e.stderr, "warning: the tool needs %s, which is not in PATH: install it\n", program)
		}
	}
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
