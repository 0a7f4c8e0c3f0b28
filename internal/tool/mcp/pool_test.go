//go:build linux

package mcp_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
)

// peerOf returns an adapter that calls one server.
func peerOf(t *testing.T, s client.Server, o mcp.Options) *peer {
	return &peer{t, newAdapter(t, o), manifest(t, s, mcp.Endpoint{}), call.SideEffectful}
}

// said calls a tool without arguments and returns the text that it answers with.
func (p *peer) said(name string) string {
	p.Helper()
	res, err := p.call(p.Context(), name, "{}", &tooltest.Recorder{})
	if err != nil {
		p.Fatalf("%s: %v", name, err)
	}
	var out struct{ Text string }
	if err := json.Unmarshal(res.Output, &out); err != nil {
		p.Fatal(err)
	}
	return out.Text
}

// TestMute calls a server that never sends a message. No request is sent to it, and the time until the next start
// grows.
func TestMute(t *testing.T) {
	s := played(t, "misbehave", "mute")
	s.StartMS = 200
	p := peerOf(t, s, mcp.Options{})
	got := p.fails("echo", "{}")
	p.wants(got, envelope.CodeUnavailable, envelope.EffectNone)
	if !strings.Contains(got.Cause, "did not answer in time, for ") {
		t.Errorf("cause: %s", got.Cause)
	}
	if got.Details.RetryAfterMS < 1 || got.Details.RetryAfterMS > 250 {
		t.Errorf("again in %d ms", got.Details.RetryAfterMS)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	<-ctx.Done()
	_, err := p.call(ctx, "echo", "{}", &tooltest.Recorder{})
	p.wants(p.adapter.ClassifyError(p.of("echo"), err), envelope.CodeTimeout, envelope.EffectNone)
}

// TestOlder calls servers that send nothing, or exit, unless the first message is "initialize". After a restart the
// adapter knows this.
func TestOlder(t *testing.T) {
	for _, how := range []string{"older", "older ends"} {
		s := played(t, "misbehave", how)
		s.StartMS = 8000
		p := peerOf(t, s, mcp.Options{})
		p.echoes("hello")
		p.adapter.Rest()
		began := time.Now()
		if p.echoes("again"); time.Since(began) > 4*time.Second {
			t.Errorf("%s: it was waited for in vain a second time", how)
		}
	}
}

// TestSlow calls a server that needs long to start, and one that ignores the first request. Each is greeted again in
// the same process. Only the second one is greeted in the older way from then on.
func TestSlow(t *testing.T) {
	for _, how := range []string{"slow", "ignores"} {
		starts := filepath.Join(t.TempDir(), "starts")
		s := played(t, "misbehave", how, "in", starts)
		s.StartMS = 16_000 // the process is greeted again after 4 s
		if how == "slow" {
			s.StartMS = 8_000 // after 2 s
		}
		p := peerOf(t, s, mcp.Options{})
		p.echoes("hello")
		if text, err := os.ReadFile(starts); err != nil || string(text) != "started\n" {
			t.Errorf("%s: %q, %v", how, text, err)
		}
		p.adapter.Rest()
		began := time.Now()
		if p.echoes("again"); how == "ignores" && time.Since(began) > 4*time.Second {
			t.Errorf("%s: it was waited for in vain a second time", how)
		}
	}
}

// TestApart calls a server that works and one that cannot be started.
func TestApart(t *testing.T) {
	dir := t.TempDir()
	raw, err := json.Marshal(map[string]any{"servers": mcp.Servers{
		"test": played(t, "misbehave"), "gone": {Command: "/nonexistent/server"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, mcp.ServersFile), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	p := peerOf(t, client.Server{}, mcp.Options{})
	p.manifest.Dir = filepath.Join(dir, "x")
	gone := p.of("echo")
	gone.Endpoint = mcp.Endpoint{Server: "gone", Tool: "echo"}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { p.echoes("well") })
		all.Go(func() {
			_, err := p.adapter.Execute(t.Context(), gone, invocationOf("{}"), &tooltest.Recorder{})
			p.wants(p.adapter.ClassifyError(gone, err), envelope.CodeUnavailable, envelope.EffectNone)
		})
	}
	all.Wait()
}

// TestEnvironment checks that a server has exactly the named variables.
func TestEnvironment(t *testing.T) {
	t.Setenv("SWORDFISH", "of this process")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := played(t, "misbehave")
	s.Env = map[string]string{
		"A": "${env:GIVEN}", "B": "x ${env:MISSING:-default}", "C": "${file:" + secret + "}", "D": "$HOME ${HOME}",
	}
	p := peerOf(t, s, mcp.Options{Environ: []string{"GIVEN=given", "TOOLBUS_CREDENTIALS=/never"}})
	want := "A=given\nB=x default\nC=from a file\nD=$HOME ${HOME}\nLANG=C.UTF-8\nPATH=" + client.DefaultPath
	if got := p.said("environ"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := os.WriteFile(secret, []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.adapter.Rest()
	if got := p.said("environ"); !strings.Contains(got, "C=another\n") {
		t.Errorf("after a restart: %s", got)
	}
	for _, name := range []string{"MISSING", "TOOLBUS_CREDENTIALS"} {
		s.Env = map[string]string{"A": "${env:" + name + "}"}
		p := peerOf(t, s, mcp.Options{Environ: []string{"TOOLBUS_CREDENTIALS=/never"}})
		if err := p.adapter.Validate(p.of("echo")); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestInstances spreads calls over the allowed number of processes.
func TestInstances(t *testing.T) {
	s := played(t, "misbehave")
	s.Instances = 2
	p := peerOf(t, s, mcp.Options{})
	first := p.said("pid")
	if again := p.said("pid"); again != first {
		t.Error("a second process, though the first has nothing to do")
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan struct{})
	go func() {
		defer close(waits)
		_, _ = p.call(ctx, "silent", "{}", &tooltest.Recorder{}) // it is given up
	}()
	pids := map[string]bool{first: true}
	for deadline := time.Now().Add(30 * time.Second); len(pids) < 2 && time.Now().Before(deadline); {
		pids[p.said("pid")] = true // until the first one is busy, and the second has started
	}
	for range 10 {
		pids[p.said("pid")] = true
	}
	cancel()
	<-waits
	if len(pids) != 2 {
		t.Errorf("%d processes, want 2", len(pids))
	}
}

// TestEndless verifies a definition of a server that lists tools without end: with one cursor again and again, with two
// in turn, or with another one each time.
func TestEndless(t *testing.T) {
	for how, says := range map[string]string{
		"endless": `page 2 has the cursor "more"`, "endless turns": `page 3 has the cursor "1"`,
		"endless counts": "lists more than",
	} {
		p := peerOf(t, played(t, "misbehave", strings.Fields(how)...), mcp.Options{})
		m := p.of("echo")
		m.Endpoint = mcp.Endpoint{Server: "test", Tool: "echo", Definition: "sha256:" + strings.Repeat("0", 64)}
		_, err := p.adapter.Execute(t.Context(), m, invocationOf("{}"), &tooltest.Recorder{})
		got := p.adapter.ClassifyError(m, err)
		p.wants(got, envelope.CodeUnavailable, envelope.EffectNone)
		if !strings.Contains(got.Cause, says) {
			t.Errorf("%s: cause: %s", how, got.Cause)
		}
	}
}

// TestMistyped calls a tool of a server that has another tool with an unreadable definition. The call succeeds.
func TestMistyped(t *testing.T) {
	p := peerOf(t, played(t, "misbehave", "mistyped"), mcp.Options{})
	definition, err := mcp.Definition(client.Tool{Name: "pid", InputSchema: []byte(`{"type":"object"}`)})
	if err != nil {
		t.Fatal(err)
	}
	m := p.of("pid")
	m.Endpoint = mcp.Endpoint{Server: "test", Tool: "pid", Definition: mcp.Digest(definition)}
	if _, err := p.adapter.Execute(t.Context(), m, invocationOf("{}"), &tooltest.Recorder{}); err != nil {
		t.Error(err)
	}
}

// TestListless verifies a definition of a server that hangs when it should list its tools. The adapter ends it, as
// after a call without an answer.
func TestListless(t *testing.T) {
	p := peerOf(t, played(t, "misbehave", "listless"), mcp.Options{})
	before := p.said("pid")
	m := p.of("pid")
	m.Endpoint = mcp.Endpoint{Server: "test", Tool: "pid", Definition: "sha256:" + strings.Repeat("0", 64)}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := p.adapter.Execute(ctx, m, invocationOf("{}"), &tooltest.Recorder{})
	p.wants(p.adapter.ClassifyError(m, err), envelope.CodeTimeout, envelope.EffectNone)
	if after := p.said("pid"); after == before {
		t.Error("the server that hangs is still there")
	}
}

// TestLarge gets an answer that is larger than the limit of an unsolicited message.
func TestLarge(t *testing.T) {
	p := newPeer(t)
	p.echoes("before")
	p.manifest.Limits.OutputBytes = 16 << 20
	const size = 10_000_000
	res, err := p.call(t.Context(), "huge", `{"n":10000000}`, &tooltest.Recorder{})
	if err != nil || len(res.Output) < size {
		t.Errorf("%d bytes, %v", len(res.Output), err)
	}
}
