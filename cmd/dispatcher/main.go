// Command dispatcher is the production process of a Toolbus dispatcher; see package internal/app for what
// it does. `toolbus dispatcher` is the same.
package main

import (
	"context"
	"os"

	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func main() {
	env := cli.Env{Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), URL: os.Getenv("TOOLBUS_URL")}
	cli.Main(func(ctx context.Context) int { return cli.Run(ctx, env, cli.Dispatcher, os.Args[1:]) })
}
