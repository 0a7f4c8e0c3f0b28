package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// completeFlag lets the shell complete a flag.
func completeFlag(cmd *cobra.Command, flag string, with cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, with); err != nil {
		panic(err) // there is no such flag: a mistake of ours
	}
}

// values completes with the values that a flag takes.
func values[T ~string](of []T) cobra.CompletionFunc {
	texts := make([]string, len(of))
	for i, v := range of {
		texts[i] = string(v)
	}
	return cobra.FixedCompletions(texts, cobra.ShellCompDirectiveNoFileComp)
}

// completeTools completes tool ids, and then functions if there may be so many arguments.
func (g *global) completeTools(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return g.toolNames(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
	}
}

// toolNames are the names that may follow args; none where they cannot be had soon.
func (g *global) toolNames(ctx context.Context, args []string) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, done, err := g.client(ctx)
	if err != nil {
		return nil
	}
	defer done()
	tools, _ := c.Tools(ctx)
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
	return names
}
