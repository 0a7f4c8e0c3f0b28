package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
)

// lintReport is the output of lint with --json.
type lintReport struct {
	Tools    int           `json:"tools"`
	Problems tool.Problems `json:"problems"`
	Fixed    []string      `json:"fixed"` // files that --fix has changed
	of       string        // what was checked: " in DIR" or " of the bus"
}

func toolsLint(g *global) *cobra.Command {
	var fix bool
	var defaults string
	cmd := &cobra.Command{
		Use: "lint [DIR]", Short: "Check the manifests of a folder or of the bus",
		Long: `Checks every tool of a folder, or of the bus without one: its manifest, schemas, examples, errors.md and
digest. It lists all problems at once, with file, line, column and fix. Dispatchers know no files: of the bus,
lint checks the manifests alone, and names the tool.

Problems end with exit code 1, also those of a program that cannot run on this host. Warnings do not: they name what
has no effect, such as a misspelt keyword of a schema, or cannot be checked.
--fix writes what can be derived: the tables of errors.md from the errors of the manifest, and the digest of the
program. It never changes free text.`,
		Example: "  toolbus tools lint ./tools\n  toolbus tools lint ./tools --fix\n  toolbus tools lint --json",
		Args:    cli.Args(0, 1, "at most one folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var report lintReport
			var err error
			if len(args) > 0 || defaults == "" {
				report, err = g.lint(cmd.Context(), args, fix)
			}
			if err != nil {
				return err
			}
			if defaults != "" {
				_, err := tool.ReadDefaults(defaults)
				if found, ok := errors.AsType[tool.Problems](err); ok {
					report.Problems, err = append(report.Problems, found...), nil
				}
				if err != nil {
					return err
				}
			}
			if err := g.print(report, report.text); err != nil {
				return err
			}
			return exitIf(report.Problems.Failed(), 1)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	cmd.Flags().StringVar(&defaults, "defaults", "", "`FILE` with defaults of tools to check, too; docs/manifest.md "+
		"shows one")
	cmd.Flags().BoolVar(&fix, "fix", false, "write what can be derived; needs a folder")
	return cmd
}

// lint lints the folder in args, or the bus.
func (g *global) lint(ctx context.Context, args []string, fix bool) (lintReport, error) {
	switch {
	case len(args) == 0 && fix:
		return lintReport{}, usagef("--fix needs a folder: toolbus tools lint --fix ./tools")
	case len(args) == 0:
		return g.lintBus(ctx)
	}
	dir := args[0]
	report, err := lintFolder(g.env, dir)
	if err == nil && fix {
		fixed, failed := tool.Fix(dir, report.Problems)
		if failed != nil {
			return report, failed
		}
		report, err = lintFolder(g.env, dir)
		for _, name := range fixed {
			report.Fixed = append(report.Fixed, filepath.Join(dir, name))
		}
	}
	report.Problems, report.of = report.Problems.Below(dir), " in "+dir
	return report, err
}

func lintFolder(e *environment, dir string) (lintReport, error) {
	set, problems, err := e.problemsOf(dir)
	if err != nil {
		return lintReport{}, err
	}
	if set.Len() == 0 && len(problems) == 0 {
		return lintReport{}, noTools(dir, "tools lint")
	}
	folders := foldersOf(problems)
	for _, m := range set.List() {
		folders[filepath.Base(m.Dir)] = true
	}
	return lintReport{Tools: len(folders), Problems: problems}, nil
}

// problemsOf returns the tools of a folder that can be loaded, and all problems and warnings, also those of this host.
func (e *environment) problemsOf(dir string) (*tool.Set, tool.Problems, error) {
	set, problems, err := tool.Lint(dir, app.Transports()...)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range set.List() {
		problems = append(problems, process.Doubts(m, e.environ)...)
	}
	return set, problems, nil
}

// noTools returns the error of a command whose folder has no tools.
func noTools(dir, command string) error {
	if _, err := os.Stat(filepath.Join(dir, "tool.yaml")); err == nil {
		return fmt.Errorf("%s is the folder of one tool: name the folder that contains it, `toolbus %s %s`", dir,
			command, filepath.Join(dir, "..")) // Dir of . is .
	}
	return fmt.Errorf("%s contains no tool: each one is a folder with a tool.yaml, such as `toolbus tools new NAME "+
		"--lang python` writes", dir)
}

func (g *global) lintBus(ctx context.Context) (report lintReport, err error) {
	c, done, err := g.client(ctx)
	if bus.IsUnreachable(err) {
		return report, fmt.Errorf("%w; `toolbus tools lint DIR` checks a folder, without a bus", err)
	}
	if err != nil {
		return report, err
	}
	defer done()
	all := onBus{c, envelope.DescribeRequest{All: true}}
	tools, err := all.Tools(ctx)
	if err != nil {
		return report, err
	}
	for _, one := range tools.Tools {
		info, err := all.Tool(ctx, one.ToolID)
		if err != nil {
			return report, err
		}
		found, err := tool.LintDescription(info, app.Transports()...)
		if err != nil {
			return report, err
		}
		report.Problems = append(report.Problems, found...)
	}
	report.Tools, report.of = len(tools.Tools), " of the bus"
	return report, nil
}

func (r lintReport) text(w io.Writer) error {
	count := printProblems(w, r.Problems)
	for _, name := range r.Fixed {
		fmt.Fprintf(w, "%s: written\n", cli.EscapeCell(name))
	}
	_, err := fmt.Fprintf(w, "%s%s, %s\n", plural(r.Tools, "tool", "tools"), cli.EscapeCell(r.of), count)
	return err
}

// printProblems prints problems, one on a line, and returns how many problems and warnings there are.
func printProblems(w io.Writer, problems tool.Problems) (count string) {
	warnings := 0
	for _, p := range problems {
		if p.Severity == tool.Warning {
			warnings++
		}
		fmt.Fprintln(w, cli.EscapeText(p.String()))
	}
	return plural(len(problems)-warnings, "problem", "problems") + ", " + plural(warnings, "warning", "warnings")
}
