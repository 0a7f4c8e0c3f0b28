package toolbus_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// asProgram makes the test binary a tool, so that Main can be tested as the process it is.
const asProgram = "TOOLBUS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	toolbus.SupervisorMain()
	if os.Getenv(asProgram) != "" {
		toolbus.ToolMain(shop())
		return
	}
	goleak.VerifyTestMain(m)
}

type order struct {
	Item string `json:"item"`
}

type receipt struct {
	Key   string `json:"key"`
	Actor string `json:"actor"`
}

// oddText is one that YAML could spoil.
const oddText = "Orders.\n\n  \"Really\": - yes\n"

// shop is one tool with all that a program can do.
func shop() *toolbus.Toolset {
	tools := toolbus.NewToolset()
	about := toolbus.Tool{
		ID: "shop.order", Version: "2.0.0", Class: toolbus.SideEffectful, Title: "Order: a #thing", Description: oddText,
		Streaming: true, DryRun: true, Errors: []*toolbus.ToolError{errNotFound, errBusy}, Tags: []string{"yes", "no"},
		Context: []string{"actor_id"}, Build: "r1",
	}
	buy := func(_ context.Context, run *toolbus.Run, in order) (receipt, error) {
		switch {
		case in.Item == "unicorn":
			failed := errNotFound.Because("no %s", in.Item)
			failed.Effect, failed.Details = toolbus.EffectNone, map[string]any{"item": in.Item}
			return receipt{}, failed
		case in.Item == "bug":
			return receipt{}, errors.New("a bug")
		case run.DryRun:
			return receipt{Key: "dry"}, nil
		}
		if err := run.Progress("ordering"); err != nil {
			return receipt{}, err
		}
		run.SideEffect(toolbus.SideEffect{Kind: "order", Target: in.Item, Bytes: 1})
		run.Warn("%s is the last one", in.Item)
		caller, err := run.Caller()
		return receipt{run.IdempotencyKey, caller.ActorID}, err
	}
	lookup := func(_ context.Context, run *toolbus.Run, in order) (receipt, error) {
		if in.Item == "unicorn" {
			return receipt{}, fmt.Errorf("look: %w", toolbus.ErrAbsent)
		}
		return receipt{run.IdempotencyKey, "found"}, nil
	}
	if err := toolbus.Add(tools, about, buy, toolbus.WithLookup(lookup)); err != nil {
		panic(err)
	}
	return tools
}

// installed is a folder of tools with the shop as a program.
func installed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "--manifest", dir)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := cmd.CombinedOutput()
	name := filepath.Base(os.Args[0])
	program := filepath.Join(dir, "shop_2eorder", name)
	if err != nil || !strings.Contains(string(out), "go build -o "+program) {
		t.Fatalf("%s, %v", out, err)
	}
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec %s\n", asProgram, os.Args[0])
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The same function does the same, whether it runs in the executor or as a program.
func TestMainIsTheSameTool(t *testing.T) {
	folder := toolbus.NewToolset()
	if err := folder.AddFolder(installed(t)); err != nil {
		t.Fatal(err)
	}
	for name, tools := range map[string]*toolbus.Toolset{"native": shop(), "program": folder} {
		t.Run(name, func(t *testing.T) {
			b := toolbustest.Start(t, tools)
			info, err := b.Tool(t.Context(), "shop.order")
			if err != nil || info.Version != "2.0.0" || info.Title != "Order: a #thing" || info.Description != oddText ||
				!info.Lookup {
				t.Errorf("%+v, %v", info, err)
			}
			var chunks []string
			call := func(item string, dry bool) *envelope.Response {
				resp, err := toolbus.Outcome(b.Call(t.Context(), toolbus.Call{
					Tool: "shop.order", Input: fmt.Appendf(nil, `{"item":%q}`, item), DryRun: dry, Retry: once,
					OnChunk: func(c envelope.Chunk) error { chunks = append(chunks, string(c.Kind)+string(c.Data)); return nil },
				}))
				if err != nil {
					t.Fatal(err)
				}
				return resp
			}
			ok := call("tea", false)
			if ok.Status != envelope.Success || !strings.Contains(string(ok.Output), `","actor":"agent://local"}`) ||
				ok.Warnings[0] != "tea is the last one" || fmt.Sprint(chunks) != `[progress"ordering"]` ||
				string(ok.SideEffects[0]) != `{"kind":"order","target":"tea","bytes":1}` {
				t.Errorf("%+v %s, chunks %v", ok, ok.Output, chunks)
			}
			if dry := call("tea", true); string(dry.Output) != `{"key":"dry","actor":""}` {
				t.Errorf("dry: %+v", dry)
			}
			no := call("unicorn", false)
			if no.Status != envelope.TerminalError || no.Error.Code != "P-PRECOND-NO_SUCH_THING" ||
				no.Error.Message != "no unicorn" || no.Error.Details.Effect != toolbus.EffectNone ||
				string(no.Error.Details.Extra["item"]) != `"unicorn"` {
				t.Errorf("%+v %+v", no.Error, no.Error.Details)
			}
			if bug := call("bug", false); bug.Error.Details.Effect != toolbus.EffectUnknown {
				t.Errorf("%+v", bug.Error)
			}
		})
	}
}

func TestMainLooksUp(t *testing.T) {
	for item, want := range map[string]string{
		"tea":     `{"type":"output","output":{"key":"k","actor":"found"},"side_effects":[],"warnings":[]}`,
		"unicorn": `{"type":"absent"}`,
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), asProgram+"=1")
		cmd.Stdin = strings.NewReader(`{"op":"lookup","fn":"run","idempotency_key":"k","input":{"item":"` + item + `"}}`)
		if out, err := cmd.Output(); strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %s, %v", item, out, err)
		}
	}
}

func TestMainRefuses(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "serve")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "--manifest DIR") {
		t.Errorf("%s, %v", out, err)
	}
}
