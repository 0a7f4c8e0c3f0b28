package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// addAnswer adds the flags of a call that answers a question of the tool.
func (f *callFlags) addAnswer(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.answerTo, "answer-to", "", "`REF` of the call that ended with P-PRECOND-INPUT_REQUIRED: this call, "+
		"with the same input, answers what its tool asks")
	fl.StringVar(&f.answer, "answer", "", "the answers, an object by the names of the questions: `JSON`, @FILE, "+
		"or - for standard input")
}

// answered returns the answer of the flags, or nil without them.
func (f *callFlags) answered(ctx context.Context, g *global) (*envelope.MCPInput, error) {
	switch {
	case f.answerTo == "" && f.answer == "" && !f.given("answer-to") && !f.given("answer"):
		return nil, nil
	case f.answerTo == "":
		return nil, usagef("--answer needs --answer-to REF: the call that asked")
	case f.answer == "":
		return nil, usagef("--answer-to needs --answer JSON: the answers")
	case f.answer == "-" && f.input == "-":
		return nil, usagef("--input and --answer cannot both be standard input")
	}
	responses, err := cli.JSON(ctx, g.env.stdin, "--answer", f.answer)
	if err != nil {
		return nil, err
	}
	return &envelope.MCPInput{State: f.answerTo, Responses: responses}, nil
}
