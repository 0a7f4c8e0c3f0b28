package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// completeFlag adds shell completion to a flag.
func completeFlag(cmd *cobra.Command, flag string, with cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, with); err != nil {
		panic(err) // cannot happen: the caller has added the flag
	}
}

// values completes a flag with its possible values.
func values[T ~string](of []T) cobra.CompletionFunc {
	texts := make([]string, len(of))
	for i, v := range of {
		texts[i] = string(v)
	}
	return cobra.FixedCompletions(texts, cobra.ShellCompDirectiveNoFileComp)
}

// completeTools completes tool ids, and then functions if the command takes most arguments.
func (g *global) completeTools(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return g.toolNames(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
	}
}

// toolNames returns the names that may follow args; none if the bus does not answer within 1 s.
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
				names = append(names, envelope.NameToCall(fn)+"\t"+info.Description)
			}
		}
	}
	return names
}
