// Command toolbus-lab tests and measures Toolbus: it injects faults into a bus of its own, and runs benchmarks.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

func main() {
	supervisor.SupervisorMain()
	env := cli.Surroundings()
	cli.Main(func(ctx context.Context) int { return cli.Execute(ctx, env, newRoot(env, os.Stdin), os.Args[1:]) })
}

// lab holds what the commands share.
type lab struct {
	env     cli.Env
	stdin   io.Reader
	json    bool
	toolbus string // value of --toolbus
}

func newRoot(env cli.Env, stdin io.Reader) *cobra.Command {
	l := &lab{env: env, stdin: stdin}
	root := cli.Group(&cobra.Command{
		Use: "toolbus-lab", Short: "Test and measure Toolbus on a bus of its own",
		Long: `Toolbus-lab tests and measures Toolbus. It starts servers and processes of its own, and needs no running bus.

Exit codes:
  0    done: no promise was broken, no target missed
  1    failed: a broken promise, a missed target, or the run itself failed
  2    wrong command line
  130  interrupted`,
		Example: `  toolbus-lab chaos --seed 7 --duration 1m
  toolbus-lab bench --quick`,
	})
	f := root.PersistentFlags()
	f.BoolVar(&l.json, "json", false, "print JSON instead of text")
	f.StringVar(&l.toolbus, "toolbus", "", "`FILE` with the program toolbus (default: beside toolbus-lab)")
	root.AddCommand(chaosCmd(l), chaosToolCmd(l), benchCmd(l), sbomCmd(l))
	return root
}

func (l *lab) print(report any, text func(io.Writer) error) error {
	if l.json {
		return cli.WriteJSON(l.env.Stdout, report)
	}
	return text(l.env.Stdout)
}

// programs returns the paths of toolbus and of this program.
func (l *lab) programs() (toolbus, self string, err error) {
	if self, err = os.Executable(); err != nil {
		return "", "", fmt.Errorf("find this program: %w", err)
	}
	toolbus, err = filepath.Abs(cmp.Or(l.toolbus, filepath.Join(filepath.Dir(self), "toolbus")))
	if err == nil {
		_, err = os.Stat(toolbus)
	}
	if err != nil {
		return "", "", fmt.Errorf("the program toolbus: %w; build it with `make build`, or name it with --toolbus", err)
	}
	return toolbus, self, nil
}
