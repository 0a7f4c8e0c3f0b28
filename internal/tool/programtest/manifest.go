package programtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-018f16cc/toolbus/program"
)

// manifest is the part of a tool.yaml that a tool's own tests need. They do not validate the manifest itself.
type manifest struct {
	Endpoint struct {
		Command []string `yaml:"command"`
	} `yaml:"endpoint"`
	Functions    map[string]*function `yaml:"functions"`
	Capabilities struct {
		Streaming bool `yaml:"streaming"`
	} `yaml:"capabilities"`
	Errors []struct {
		Code string `yaml:"code"`
	} `yaml:"errors"`
}

type function struct {
	Request  string    `yaml:"request"`
	Response string    `yaml:"response"`
	Examples []example `yaml:"examples"`

	request, response schema
}

type example struct {
	Name   string `yaml:"name"`
	Input  any    `yaml:"input"`
	Output any    `yaml:"output"`
	Error  string `yaml:"error"` // name of the declared error with which the call ends

	input, output jsontext.Value
}

type schema struct{ compiled *jsonschema.Schema }

func loadManifest(t *testing.T) manifest {
	t.Helper()
	data, err := os.ReadFile("tool.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := yaml.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	for _, fn := range m.Functions {
		fn.request, fn.response = compile(t, fn.Request), compile(t, fn.Response)
		for i := range fn.Examples {
			e := &fn.Examples[i]
			e.input = toJSON(t, e.Input)
			if e.Output != nil {
				e.output = toJSON(t, e.Output)
			}
		}
	}
	return m
}

func toJSON(t *testing.T, v any) jsontext.Value {
	t.Helper()
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func compile(t *testing.T, name string) schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	compiled, err := compiler.Compile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return schema{compiled}
}

func (s schema) check(data []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return s.compiled.Validate(value)
}

// check checks an answer against the manifest, and returns the code of its error, or "".
func (m manifest) check(t *testing.T, call program.Call, answer Answer) string {
	t.Helper()
	fn := m.Functions[call.Fn]
	if fn == nil {
		t.Fatalf("no function %q in the manifest", call.Fn)
	}
	if err := fn.request.check(call.Input); err != nil {
		t.Errorf("input: %v", err)
	}
	if len(answer.Data("chunk")) > 0 && !m.Capabilities.Streaming {
		t.Error("chunks from a tool that does not declare streaming")
	}
	switch last := answer.Terminal(); last.Type {
	case "output":
		if err := fn.response.check(last.Output); err != nil {
			t.Errorf("output: %v", err)
		}
	case "error":
		if err := m.checkError(last.Error); err != nil {
			t.Error(err)
		}
		return last.Error.Code
	}
	return ""
}

// reserved are members of details that Toolbus defines. See package internal/tool/process.
var reserved = []string{
	"effect", "http_status", "retry_after_ms", "stderr", "tool_code", "violations", "violations_truncated",
	"attempt", "call_id", "owner", "tool_id", "tool_version", "trace_id",
}

func (m manifest) checkError(failure *Failure) error {
	declared := slices.ContainsFunc(m.Errors, func(e struct {
		Code string `yaml:"code"`
	}) bool {
		return e.Code == failure.Code
	})
	for _, name := range reserved {
		if _, used := failure.Details[name]; used {
			return fmt.Errorf("details.%s is Toolbus's own and would be lost", name)
		}
	}
	known := []program.Effect{program.EffectNone, program.EffectApplied, program.EffectUnknown}
	if !declared || failure.Message == "" || !slices.Contains(known, failure.Effect) {
		return fmt.Errorf("error is undeclared or incomplete: %+v", failure)
	}
	return nil
}
