package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// completeTool completes a flag with tool ids.
func completeTool(g *global, cmd *cobra.Command, flag string) {
	err := cmd.RegisterFlagCompletionFunc(flag,
		func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return completeTools(cmd.Context(), g, nil)
		})
	if err != nil {
		panic(err) // there is no such flag: a mistake of ours
	}
}

// completeTools completes tool ids, then functions.
func completeTools(ctx context.Context, g *global, args []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, done, err := g.client(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer done()
	tools, err := c.Tools(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, t := range tools {
		if len(args) == 0 {
			names = append(names, t.ToolID+"\t"+t.Title)
			continue
		}
		if len(args) == 1 && t.ToolID == args[0] {
			for fn, info := range t.Functions {
				names = append(names, fn+"\t"+info.Description)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
