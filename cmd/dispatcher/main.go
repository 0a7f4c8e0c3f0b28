// Command dispatcher is the production process of a Toolbus dispatcher; see package internal/app for what
// it does. `toolbus dispatcher` is the same.
package main

import (
	"context"
	"os"

	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func main() {
	cli.Main(func(ctx context.Context) int { return cli.Run(ctx, cli.Surroundings(), cli.Dispatcher, os.Args[1:]) })
}
