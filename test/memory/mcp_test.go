package memory

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// What `toolbus mcp` may take for one agent: 30 tools, after 100 calls. It takes 38 MB and 9 MB. The bounds leave half
// as much again, since the page cache and the collector have a part in it.
const (
	agentTools    = 30
	agentCalls    = 100
	agentBound    = 60_000_000
	agentOwnBound = 14_000_000 // anonymous memory: what no other process shares
)

// question is an input as imported tools have it: a few members, most of them optional, each with a description.
type question struct {
	Path    string   `json:"path" jsonschema:"the file or folder, relative to the folder that the server was started in"`
	Pattern string   `json:"pattern,omitempty" jsonschema:"what names have to match, as in a shell"`
	Exclude []string `json:"exclude,omitempty" jsonschema:"what names must not match"`
	Head    int      `json:"head,omitempty" jsonschema:"how many lines from the beginning"`
	Tail    int      `json:"tail,omitempty" jsonschema:"how many lines from the end"`
	Sort    string   `json:"sort,omitempty" jsonschema:"by name or by size"`
	Follow  bool     `json:"follow,omitempty" jsonschema:"whether links are followed"`
}

type reply struct {
	Text  string   `json:"text" jsonschema:"what was found"`
	Files []string `json:"files,omitempty" jsonschema:"the files that it was found in"`
}

// An agent costs little memory: each one has a process of its own. Most of that are pages of the program file, which
// all agents share. How many of them are resident depends on the page cache, too: where the kernel keeps the file in
// large folios, it maps a whole folio for each page that is read. So the test runs a copy that was written page by
// page. The memory that an agent shares with nobody has a bound of its own.
func TestAgent(t *testing.T) {
	tools := toolbus.NewToolset()
	for n := range agentTools {
		if err := toolbus.Add(tools, toolbus.Tool{
			ID: fmt.Sprintf("files.tool_%d", n), Class: toolbus.Pure,
			Description: strings.Repeat("Lists what is in a folder, with sizes and times. ", 5),
		}, func(_ context.Context, _ *toolbus.Run, in question) (reply, error) {
			return reply{Text: strings.Repeat(in.Path, 100)}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	bus := toolbustest.Start(t, tools)
	binary := filepath.Join(t.TempDir(), "toolbus")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/toolbus")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	installed := binary + ".copy"
	copyByPages(t, installed, binary)
	all, own := runAgent(t, installed, bus.URL)
	t.Logf("%.1f MB resident, %.1f MB of them anonymous", float64(all)/1e6, float64(own)/1e6)
	if all > agentBound || own > agentOwnBound {
		t.Errorf("%d bytes are resident and %d of them anonymous, want %d and %d at most", all, own, agentBound,
			agentOwnBound)
	}
}

// copyByPages copies a program by writes of one page.
func copyByPages(t *testing.T, to, from string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }() // it is read only
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	write := struct{ io.Writer }{out} // without ReadFrom, which copies more at once
	if _, err := io.CopyBuffer(write, struct{ io.Reader }{in}, make([]byte, os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// runAgent starts an MCP server process, lists and calls the tools, and returns its resident and its anonymous memory.
func runAgent(t *testing.T, binary, url string) (all, own int64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "mcp", "--server", url)
	cmd.Stderr = os.Stderr
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }() // the process is gone then
	listed, err := session.ListTools(t.Context(), nil)
	if err != nil || len(listed.Tools) != agentTools {
		t.Fatalf("%d tools, %v", len(listed.Tools), err)
	}
	for n := range agentCalls {
		r, err := session.CallTool(t.Context(), &sdk.CallToolParams{
			Name: listed.Tools[n%agentTools].Name, Arguments: question{Path: "a/folder", Head: n},
		})
		if err != nil || r.IsError {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	return resident(t, cmd.Process.Pid, "VmRSS:"), resident(t, cmd.Process.Pid, "RssAnon:")
}

// resident returns a size of a process, as Linux names it.
func resident(t *testing.T, pid int, name string) (bytes int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no %s in %s", name, status)
	return 0
}
