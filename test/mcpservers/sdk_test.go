package mcpservers

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// everything is the package of the server with which the SDK is tested, of both eras of the protocol.
const everything = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"

// buildEverything returns the program.
func buildEverything(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "everything")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", file, everything).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// serveEverything runs the program behind a URL.
func serveEverything(t *testing.T, program string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, program, "-http="+address)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	lines.Scan() // it says where it listens
	go func() {
		for lines.Scan() {
		}
	}()
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
	})
	for deadline := time.Now().Add(30 * time.Second); ; {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return "http://" + address
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// result is what is compared of a result.
type result struct {
	Content    []any `json:"content"`
	Structured any   `json:"structuredContent"`
	IsError    bool  `json:"isError"`
}

// TestSameAsDirect calls every tool of the SDK's server through the bus and directly: the results are the same, but for
// those tools that ask something of their client, which nobody can answer here.
func TestSameAsDirect(t *testing.T) {
	program := buildEverything(t)
	t.Run("stdio", func(t *testing.T) {
		sameAsDirect(t, client.Server{Command: program}, &sdk.CommandTransport{Command: exec.Command(program)})
	})
	t.Run("HTTP", func(t *testing.T) {
		url := serveEverything(t, program)
		sameAsDirect(t, client.Server{URL: url}, &sdk.StreamableClientTransport{Endpoint: url})
	})
}

func sameAsDirect(t *testing.T, server client.Server, over sdk.Transport) {
	i := newImporter(t)
	i.adds("sdk", server)
	b := i.bus()
	client := sdk.NewClient(&sdk.Implementation{Name: "direct", Version: "1"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{}, MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	session, err := client.Connect(t.Context(), over, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if got := session.InitializeResult().ProtocolVersion; got != "2026-07-28" {
		t.Errorf("it speaks %s", got)
	}
	compared := 0
	for listed, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		input := inputFor(listed.Name)
		direct, err := session.CallTool(ctx, &sdk.CallToolParams{Name: listed.Name, Arguments: input})
		cancel()
		through := b.asks(toolbus.Call{
			Tool: "mcp::sdk::" + listed.Name, Input: input, Key: "key-of-" + listed.Name + "-1", Retry: &envelope.RetryPolicy{},
		})
		switch {
		case err != nil:
			if through.Error == nil {
				t.Errorf("%s: directly %v, through the bus %s", listed.Name, err, through.Output)
			}
		case direct.NeedsInput():
			if through.Error == nil || through.Error.Code != "P-PRECOND-INPUT_REQUIRED" {
				t.Errorf("%s: it needs input; through the bus %v", listed.Name, through.Error)
			}
		case direct.IsError:
			said, _ := direct.Content[0].(*sdk.TextContent)
			if through.Error == nil || said == nil || said.Text != through.Error.Message {
				t.Errorf("%s: directly %s, through the bus %v", listed.Name, text(t, direct), through.Error)
			}
		case listed.Name == "test_tool_with_progress": // it answers with the token, which the bus has chosen
		default:
			compared++
			compare(t, listed.Name, direct, through)
		}
	}
	if compared < 8 {
		t.Errorf("only %d tools gave a result", compared)
	}
}

// inputFor is what a tool is called with.
func inputFor(name string) jsontext.Value {
	switch name {
	case "test_x_mcp_header": // which HTTP clients repeat in a header
		return jsontext.Value(`{"region":"eu","level":7}`)
	case "json_schema_2020_12_tool":
		return jsontext.Value(`{"name":"n","email":"a@example.com","address":{"street":"s","city":"c"}}`)
	case "test_elicitation":
		return jsontext.Value(`{"message":"m"}`)
	case "test_sampling":
		return jsontext.Value(`{"prompt":"p"}`)
	}
	return jsontext.Value(`{}`)
}

func text(t *testing.T, r *sdk.CallToolResult) string {
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func compare(t *testing.T, name string, direct *sdk.CallToolResult, through *envelope.Response) {
	if through.Status != envelope.Success {
		t.Errorf("%s: directly %s, through the bus %v", name, text(t, direct), through.Error)
		return
	}
	var want, got result
	for from, into := range map[string]*result{text(t, direct): &want, string(through.Output): &got} {
		if err := json.Unmarshal([]byte(from), into); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-direct +through):\n%s", name, diff)
	}
}
