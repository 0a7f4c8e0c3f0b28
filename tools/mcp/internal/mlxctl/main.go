package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/mcpserver"
)

func main() {
	supervisor.SupervisorMain()
	watcher, err := supervisor.Find("")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c := newControl(launcher{
		supervisor: watcher, command: strings.Fields(os.Getenv("MLXCTL_COMMAND")), models: os.Getenv("MLXCTL_MODELS"),
	})
	os.Exit(mcpserver.Main("mlxctl", c.tools(), c.end))
}

func (c *control) tools() map[string]mcpserver.Tool {
	return map[string]mcpserver.Tool{
		"mlx.load":   {Program: program.Tool{"load": {Execute: program.Typed(c.load)}}},
		"mlx.unload": {Program: program.Tool{"unload": {Execute: program.Typed(c.unload)}}},
	}
}
