// Command executor is the production process of a Toolbus executor; see package internal/app for what
// it does. `toolbus executor` is the same.
package main

import (
	"context"
	"os"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

func main() {
	supervisor.SupervisorMain()
	cli.Main(func(ctx context.Context) int { return cli.Run(ctx, cli.Surroundings(), cli.Executor, os.Args[1:]) })
}
