package effects

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Spec describes a tool of a chaos run.
type Spec struct {
	ID        string
	Class     call.EffectClass
	Streaming bool
	Lookup    bool
}

// Fn is the only function of each tool.
const Fn = "do"

// Specs returns the tools: one of each kind that the protocol distinguishes.
func Specs() []Spec {
	return []Spec{
		{ID: "chaos.read", Class: call.Pure},
		{ID: "chaos.put", Class: call.Idempotent},
		{ID: "chaos.tell", Class: call.Idempotent, Streaming: true},
		{ID: "chaos.pay", Class: call.SideEffectful, Lookup: true},
		{ID: "chaos.mail", Class: call.SideEffectful},
		{ID: "chaos.feed", Class: call.SideEffectful, Streaming: true, Lookup: true},
	}
}

// TimeoutMS is the longest timeout of a call in milliseconds.
const TimeoutMS = 60_000

const manifest = `tool_id: %s
semver: 1.0.0
owner: "@chaos"
title: A tool of a chaos run
description: It notes in a ledger what it does.
determinism: %s
transport: process
endpoint: {command: [%s]}
functions:
  do: {description: It notes what it does., request: request.json, response: response.json}
capabilities: {streaming: %t, lookup: %t}
limits: {timeout_ms_default: 5000, timeout_ms_max: %d, concurrency_max: 64}
errors:
  - {code: flaky, class: R-UPSTREAM, message: It failed before its effect., fix: Try again.}
  - {code: refused, class: P-PRECOND, message: It will not do it., fix: Ask for something else.}
  - {code: late, class: R-UPSTREAM, message: It failed after its effect., fix: Try again.}
`

// RequestSchema is the schema of all inputs.
const RequestSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
"additionalProperties":false,"required":["n"],"properties":{"n":{"type":"integer"},"work_ms":{"type":"integer"},
"tail_ms":{"type":"integer"},
"chunks":{"type":"integer"},"fail":{"type":"string"},"times":{"type":"integer"},"pad":{"type":"string"},
"out":{"type":"integer"}}}
`

// ResponseSchema is the schema of all outputs.
const ResponseSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
"additionalProperties":false,"required":["n","run"],"properties":{"n":{"type":"integer"},"run":{"type":"string"},
"pad":{"type":"string"}}}
`

// WriteTools writes the folders of the tools into dir. command is the command line that runs a tool.
func WriteTools(dir string, command ...string) error {
	quoted := make([]string, len(command))
	for i, arg := range command {
		quoted[i] = fmt.Sprintf("%q", arg)
	}
	for _, s := range Specs() {
		folder := filepath.Join(dir, subjects.Token(s.ID))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		for name, content := range map[string]string{
			"tool.yaml":     fmt.Sprintf(manifest, s.ID, s.Class, strings.Join(quoted, ", "), s.Streaming, s.Lookup, TimeoutMS),
			"request.json":  RequestSchema,
			"response.json": ResponseSchema,
		} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}
