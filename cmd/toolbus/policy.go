package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

func policyCmd(g *global) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "policy", Short: "Write, check, query and push policy sets", GroupID: "operate",
		Long: `A policy set is three documents in a folder: policy/roles.yaml, policy/lanes.yaml and
tools/tool_registry.yaml. push, diff, pull, rollback, reset, history, show and explain need a bus and an operator's
token; so does init if it is not given a folder, and so do who-can and can with --live. The others need no bus.`,
		Example: "  toolbus policy init .\n  toolbus policy lint .\n  toolbus policy who-can text.search --live\n" +
			"  toolbus policy push . --reason \"billing may refund\"",
	})
	cmd.AddCommand(policyInit(g), policyLint(g), policyWhoCan(g), policyCan(g), policyExplain(g), policySchema(g),
		policyPushCmd(g), policyDiffCmd(g), policyShowCmd(g), policyPullCmd(g), policyHistoryCmd(g), policyRollbackCmd(g),
		policyResetCmd(g))
	return cmd
}

// policyFolders are the folders of a policy set and of the tools that it is for.
type policyFolders struct{ set, tools string }

func (f *policyFolders) toolsFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tools, "tools", "",
		"`DIR` with one folder for each tool (default: tools in the folder of the set)")
}

func (f *policyFolders) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.set, "policy", ".", "`DIR` with the policy set")
	f.toolsFlag(cmd)
}

func (f policyFolders) toolsFolder() string { return cmp.Or(f.tools, filepath.Join(f.set, "tools")) }

// manifests loads the tools.
func (f policyFolders) manifests() ([]*tool.Manifest, error) {
	set, err := tool.Load(f.toolsFolder(), app.Transports()...)
	if err != nil {
		return nil, err
	}
	return set.List(), nil
}

// parse reads and parses the set.
func (f policyFolders) parse() (*policy.Set, error) {
	documents, err := readSet(f.set)
	if err != nil {
		return nil, err
	}
	return policy.Parse(documents)
}

// compile reads the set and the tools, and compiles them.
func (f policyFolders) compile() (*policy.Snapshot, error) {
	set, err := f.parse()
	if err != nil {
		return nil, err
	}
	tools, err := f.manifests()
	if err != nil {
		return nil, err
	}
	return policy.Compile(set, tools)
}

func policyInit(g *global) *cobra.Command {
	var f policyFolders
	force := false
	cmd := &cobra.Command{
		Use: "init [DIR]", Short: "Write a policy set that allows all tools of the bus or of a folder",
		Long: `Writes into DIR a set with the role agent, the lane default with implicit runs, and an entry for each tool.
Without DIR and --tools, the tools are those that a dispatcher of the bus has loaded, and the set is written into the
current folder; that needs an operator's token. An entry restricts nothing that its manifest allows. A tool that writes,
but whose manifest names no write targets, gets the target *. Paths, addresses and commands whose schema has no such
format get an item of unsanitized. It replaces files only with --force, and then all three as a whole: first keep what
you have changed in them.

Exit codes: 0 the set is written, 1 a file is in the way or the tools cannot be read, 11 the bus refuses.`,
		Example: "  toolbus policy init --credentials operator.token\n" +
			"  toolbus policy init ./deployment --tools ./tools\n" +
			"  toolbus policy init ./deployment --tools ./tools --force  # after a tool was added",
		Args: cli.Args(0, 1, "at most one folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.set = argument(args)
			ofBus := len(args) == 0 && f.tools == ""
			return g.initPolicy(cmd.Context(), f, ofBus, force)
		},
	}
	f.toolsFlag(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "replace the files of an earlier set")
	return cmd
}

// argument returns the folder that the command line names, or the current one.
func argument(args []string) string { return cmp.Or(strings.Join(args, ""), ".") }

// initPolicy writes a set for the tools of the bus, or else of the folder.
func (g *global) initPolicy(ctx context.Context, f policyFolders, ofBus, force bool) error {
	from := f.manifests
	if ofBus {
		from = func() ([]*tool.Manifest, error) { return g.busManifests(ctx) }
	}
	tools, err := from()
	if !ofBus && f.tools == "" && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w\nname the folder of the tools with --tools DIR; for the tools of a bus, name no folder", err)
	}
	if err != nil {
		return err
	}
	replaced, err := writePolicy(f.set, tools, force)
	if err != nil {
		return err
	}
	if len(replaced) > 0 {
		fmt.Fprintln(g.env.stderr, "replaced:", strings.Join(replaced, ", "))
	}
	written := setNames()
	paths := make([]string, len(written))
	for i, name := range written {
		paths[i] = cli.EscapeText(filepath.Join(f.set, name))
	}
	return g.say(written, strings.Join(paths, "\n"))
}

// writePolicy writes a set that allows all tools into a folder. It replaces files only if force is true, and returns
// their names.
func writePolicy(dir string, tools []*tool.Manifest, force bool) (replaced []string, err error) {
	d, err := policy.Generate(tools)
	if err != nil {
		return nil, err
	}
	return writeSet(dir, d, force)
}

// policyReport is the output of lint with --json.
type policyReport struct {
	Problems tool.Problems `json:"problems"`
}

func policyLint(g *global) *cobra.Command {
	var f policyFolders
	cmd := &cobra.Command{
		Use: "lint [DIR]", Short: "Check a policy set and its tools",
		Long: `Checks the three documents in DIR (default: the current folder) against their schemas, against each other and
against the manifests of the tools. It lists all problems at once, with file, line, column and fix. Problems end with
exit code 1. Warnings do not: they name what is allowed more widely than it has to be, such as the write target *, and
what has no effect.`,
		Example: "  toolbus policy lint\n  toolbus policy lint ./deployment --tools ./tools --json",
		Args:    cli.Args(0, 1, "at most one folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			f.set = argument(args)
			problems, err := f.lint()
			if err != nil {
				return err
			}
			report := policyReport{problems}
			if err := g.print(report, report.text); err != nil {
				return err
			}
			return exitIf(problems.Failed(), 1)
		},
	}
	f.toolsFlag(cmd)
	return cmd
}

// lint returns the problems of the set. The error is about what lint does not check, such as the manifests.
func (f policyFolders) lint() (tool.Problems, error) {
	documents, err := readSet(f.set)
	if found, ok := errors.AsType[tool.Problems](err); ok {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	tools, unread := f.manifests()
	all, err := policy.Lint(documents, tools)
	if err == nil && !all.Failed() {
		err = unread
	}
	return all, err
}

func (r policyReport) text(w io.Writer) error {
	_, err := fmt.Fprintln(w, printProblems(w, r.Problems))
	return err
}

func policySchema(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "schema DOCUMENT", Short: "Print the JSON Schema of a document for editors: roles, lanes or tool_registry",
		Example:   "  toolbus policy schema lanes > lanes.schema.json",
		Args:      cli.Args(1, 1, "one of roles, lanes and tool_registry"),
		ValidArgs: []string{"roles", "lanes", "tool_registry"},
		RunE: func(_ *cobra.Command, args []string) error {
			for _, d := range policy.AllDocuments() {
				if d.Name == args[0] {
					_, err := g.env.stdout.Write(d.Schema)
					return err
				}
			}
			return usagef("no document %q: roles, lanes or tool_registry", args[0])
		},
	}
}
