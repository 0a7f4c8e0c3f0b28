package mcpservers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// This binary plays every part: it is the test, the bus, the supervisor, and a server.
func TestMain(m *testing.M) {
	supervisor.SupervisorMain()
	if len(os.Args) > 2 && os.Args[1] == "shop" {
		syscall.Exit(shop(os.Args[2]))
	}
	if len(os.Args) > 2 && os.Args[1] == "raw" {
		syscall.Exit(raw(os.Args[2]))
	}
	if len(os.Args) > 1 && os.Args[1] == "said" {
		syscall.Exit(say())
	}
	if len(os.Args) > 1 && os.Args[1] == "fickle" {
		syscall.Exit(fickle())
	}
	if len(os.Args) > 1 && os.Args[1] == "asking" {
		syscall.Exit(serveAsking())
	}
	os.Exit(m.Run())
}

// shop is a server that sells: each sale is a line of the file, and some are its last.
func shop(file string) int {
	s := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	s.AddTool(&sdk.Tool{
		Name:        "sell",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"goods":{"type":"string"}}}`),
	}, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in struct{ Goods string }
		if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintln(f, in.Goods); err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		if in.Goods == "poison" {
			syscall.Exit(9)
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "sold " + in.Goods}}}, nil
	})
	if s.Run(context.Background(), &sdk.StdioTransport{}) != nil {
		return 1
	}
	return 0
}

// importRun makes tools of servers.
type importRun struct {
	*testing.T
	options importer.Options
}

func newImporter(t *testing.T) *importRun {
	t.Helper()
	return &importRun{t, importer.Options{Dir: t.TempDir(), Owner: "@test", Version: "test"}}
}

// adds imports a server, of which no tool may be left out.
func (i *importRun) adds(name string, s client.Server) {
	i.Helper()
	r, err := importer.Import(i.Context(), name, s, i.options)
	if err != nil {
		i.Fatalf("%s: %v", name, err)
	}
	for _, one := range r.Tools {
		if one.State != importer.Added {
			i.Errorf("%s %q: %s: %s", name, one.Name, one.State, one.Why)
		}
	}
}

// edit changes the manifest of a tool.
func (i *importRun) edit(folder, from, to string) {
	i.Helper()
	file := filepath.Join(i.options.Dir, folder, "tool.yaml")
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), from) {
		i.Fatalf("%s: %v\n%s", file, err, text)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
		i.Fatal(err)
	}
}

// bus runs a bus with the tools.
func (i *importRun) bus() *bus {
	i.Helper()
	tools := toolbus.NewToolset()
	if err := tools.AddFolder(i.options.Dir); err != nil {
		i.Fatal(err)
	}
	return &bus{i.T, toolbustest.Start(i.T, tools)}
}

type bus struct {
	*testing.T
	*toolbustest.Bus
}

// asks makes a call and returns its outcome.
func (b *bus) asks(call toolbus.Call) *envelope.Response {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.T.Context(), time.Minute)
	defer cancel()
	r, err := toolbus.Outcome(b.Call(ctx, call))
	if err != nil {
		b.Fatalf("%s: %v", call.Tool, err)
	}
	return r
}

// gets makes a call that succeeds, and returns the text of its result.
func (b *bus) gets(tool, input string) string {
	b.Helper()
	r := b.asks(toolbus.Call{Tool: tool, Input: jsontext.Value(input)})
	if r.Status != envelope.Success {
		b.Fatalf("%s %s: %v", tool, input, r.Error)
	}
	return textOf(b.T, r)
}

// fails makes a call that fails, and returns its error.
func (b *bus) fails(tool, input string, code envelope.Code, effect envelope.Effect) *envelope.Error {
	b.Helper()
	r := b.asks(toolbus.Call{Tool: tool, Input: jsontext.Value(input)})
	if r.Error == nil {
		b.Fatalf("%s %s succeeded with %s", tool, input, r.Output)
	}
	if r.Error.Code != code || r.Error.Details.Effect != effect {
		b.Errorf("%s %s: %v, effect %s; want %s, %s", tool, input, r.Error, r.Error.Details.Effect, code, effect)
	}
	return r.Error
}

// recorded returns the record of an event of a call. It waits until there is one.
func (b *bus) recorded(callID string, event audit.Event) *audit.Record {
	b.Helper()
	nc, err := nats.Connect(b.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.T.Context(), time.Minute)
	defer cancel()
	filter := reader.Filter{Call: callID, Event: event, Follow: true}
	for r, err := range reader.Replay(ctx, reader.Streams(js), filter) {
		if err != nil {
			b.Fatal(err)
		}
		return &r
	}
	b.Fatalf("there is no record %s of %s", event, callID)
	return nil
}

// textOf is what a result says to people.
func textOf(t *testing.T, r *envelope.Response) (all string) {
	t.Helper()
	var result struct {
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(r.Output, &result); err != nil {
		t.Fatalf("%s: %v", r.Output, err)
	}
	for _, c := range result.Content {
		all += c.Text
	}
	return all
}
