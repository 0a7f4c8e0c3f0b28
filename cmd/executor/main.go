// Command executor is the production process of a Toolbus executor; see package internal/app for what
// it does. `toolbus executor` is the same.
package main

import (
	"os"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/supervisor"
)

func main() {
	supervisor.RunIfSupervisor()
	ctx, stop := cli.UntilSignal()
	env := cli.Env{Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), URL: os.Getenv("TOOLBUS_URL")}
	release := cli.Ballast()
	code := cli.Run(ctx, env, cli.Executor, os.Args[1:])
	stop()
	release()
	os.Exit(code)
}
