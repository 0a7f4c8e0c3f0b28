//go:build linux

package mcp_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
)

// played returns a server that is this binary in one of its roles.
func played(t testing.TB, part string, args ...string) client.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return client.Server{Command: self, Args: append([]string{"play", part}, args...)}
}

// manifest returns the manifest of a tool of the server "test", in its own folder of tools.
func manifest(t testing.TB, s client.Server, e mcp.Endpoint) *tool.Manifest {
	t.Helper()
	dir := t.TempDir()
	raw, err := json.Marshal(map[string]any{"servers": mcp.Servers{"test": s}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, mcp.ServersFile), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	e.Server = "test"
	return &tool.Manifest{
		ToolID: "test." + e.Tool, Semver: "1.2.3", Status: tool.StatusActive, Class: call.Idempotent,
		Transport: mcp.Transport, Endpoint: e, Dir: filepath.Join(dir, "test_2e"+e.Tool),
		Capability: tool.Capabilities{Streaming: true},
		Limits: envelope.ToolLimits{
			TimeoutDefaultMS: 60_000, TimeoutMaxMS: 60_000, MemoryMB: 512, Concurrency: 8,
			OutputBytes: 1 << 20, StderrBytes: 8 << 10,
		},
	}
}

func newAdapter(t *testing.T, o mcp.Options) *mcp.Adapter {
	t.Helper()
	a := mcp.New(o)
	t.Cleanup(a.Rest)
	return a
}

func TestConformance(t *testing.T) {
	tooltest.Run(t, func(t *testing.T) tooltest.Fixture {
		return tooltest.Fixture{
			Adapter: newAdapter(t, mcp.Options{}),
			Manifest: manifest(t, played(t, "behave"), mcp.Endpoint{
				Tool: "behave", Invocation: true, Lookup: &mcp.Lookup{Tool: "look", Argument: "key"},
			}),
		}
	})
}

// A server whose program is gone, or lost its interpreter, could not be started, also after it was reached before.
func TestStartable(t *testing.T) {
	program := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	a, m := newAdapter(t, mcp.Options{}), manifest(t, client.Server{Command: program}, mcp.Endpoint{Tool: "x"})
	if err := a.Startable(m); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(program, []byte("#!/nonexistent\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := a.Startable(m); err == nil {
		t.Error("a server without its interpreter is startable")
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if err := a.Startable(m); err == nil {
		t.Error("a server without its program is startable")
	}
	if err := a.Startable(manifest(t, client.Server{URL: "http://127.0.0.1:1/"}, mcp.Endpoint{Tool: "x"})); err != nil {
		t.Error(err)
	}
}
