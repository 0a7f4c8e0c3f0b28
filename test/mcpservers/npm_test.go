package mcpservers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

var servers = flag.String("servers", "", "folder in which npm has installed the reference servers: `make mcp-servers`")

// reference are servers that nobody here wrote.
type reference struct {
	*bus
	files string // what the one for files may touch
}

func newReference(t *testing.T) *reference {
	t.Helper()
	i := newImporter(t)
	i.options.Environ = os.Environ()
	files := t.TempDir()
	env := map[string]string{"PATH": os.Getenv("PATH")}
	for name, s := range map[string]client.Server{
		"everything": {}, "filesystem": {Args: []string{files}}, "sequential-thinking": {}, "memory": {
			Env: map[string]string{"PATH": os.Getenv("PATH"), "MEMORY_FILE_PATH": filepath.Join(files, "mcp::memory::json")},
		},
	} {
		s.Command = filepath.Join(*servers, "node_modules", ".bin", "mcp-server-"+name)
		if s.Env == nil {
			s.Env = env
		}
		i.adds(name, s)
	}
	return &reference{i.bus(), files}
}

// TestReferenceServers imports the reference servers, and calls them: results, progress, cancellation, errors, and a
// server that is killed. They are programs of npm, so without -servers, which `make mcp-servers` gives, there are none.
func TestReferenceServers(t *testing.T) {
	if *servers == "" {
		t.Log("make mcp-servers runs this with the servers")
		return
	}
	r := newReference(t)
	r.results()
	r.errors()
	r.progress()
	r.cancel()
	r.remembers()
}

func (r *reference) results() {
	if got := r.gets("mcp::everything::echo", `{"message":"hello"}`); got != "Echo: hello" {
		r.Errorf("echo: %q", got)
	}
	if got := r.gets("mcp::everything::get-sum", `{"a":2,"b":40}`); !strings.Contains(got, "42") {
		r.Errorf("sum: %q", got)
	}
	resp := r.asks(toolbus.Call{
		Tool: "mcp::everything::get-structured-content", Input: jsontext.Value(`{"location":"New York"}`),
	})
	if !strings.Contains(string(resp.Output), `"structuredContent":{`) {
		r.Errorf("structured: %s", resp.Output)
	}
	file := filepath.Join(r.files, "note.txt")
	r.gets("mcp::filesystem::write_file", fmt.Sprintf(`{"path":%q,"content":"hello"}`, file))
	if got := r.gets("mcp::filesystem::read_text_file", fmt.Sprintf(`{"path":%q}`, file)); got != "hello" {
		r.Errorf("file: %q", got)
	}
	thought := `{"thought":"a","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}`
	if got := r.gets("mcp::sequential-thinking::sequentialthinking", thought); !strings.Contains(got, "thoughtNumber") {
		r.Errorf("thought: %q", got)
	}
}

func (r *reference) errors() {
	r.fails("mcp::everything::get-sum", `{"a":"two"}`, envelope.CodeSchema, envelope.EffectNone)
	missing := fmt.Sprintf(`{"path":%q}`, filepath.Join(r.files, "missing"))
	e := r.fails("mcp::filesystem::read_text_file", missing, "P-PRECOND-TOOL_ERROR", envelope.EffectNone)
	if !strings.Contains(e.Message, "ENOENT") {
		r.Errorf("of a file that is not there: %s", e.Message)
	}
	r.fails("mcp::filesystem::edit_file", fmt.Sprintf(`{"path":%q,"edits":[]}`, filepath.Join(r.files, "missing")),
		"P-PRECOND-TOOL_ERROR", envelope.EffectUnknown)
}

func (r *reference) progress() {
	var told []string
	resp := r.asks(toolbus.Call{
		Tool: "mcp::everything::trigger-long-running-operation", Input: jsontext.Value(`{"duration":1,"steps":4}`),
		OnChunk: func(c envelope.Chunk) error {
			told = append(told, string(c.Data))
			return nil
		},
	})
	if resp.Status != envelope.Success || len(told) != 4 || told[3] != `{"progress":4,"total":4}` {
		r.Errorf("%v, progress %q", resp.Error, told)
	}
}

func (r *reference) cancel() {
	ctx, cancel := context.WithTimeout(r.T.Context(), time.Minute)
	defer cancel()
	begun := make(chan string, 1)
	var ref string
	call := toolbus.Call{
		Tool: "mcp::everything::trigger-long-running-operation", Input: jsontext.Value(`{"duration":60,"steps":600}`),
		Timeout:    time.Minute,
		OnAccepted: func(a envelope.Accepted) { ref = a.Ref },
		OnChunk: func(envelope.Chunk) error {
			select {
			case begun <- ref:
			default:
			}
			return nil
		},
	}
	ended := make(chan error, 1)
	go func() {
		resp, err := toolbus.Outcome(r.Call(ctx, call))
		if err == nil && (resp.Error == nil || resp.Error.Code != envelope.CodeCancelled) {
			err = fmt.Errorf("it ended with %v", resp.Error)
		}
		ended <- err
	}()
	select {
	case ref := <-begun:
		if _, err := r.Cancel(ctx, envelope.CallRef{Ref: ref}); err != nil {
			r.Error(err)
		}
	case <-ctx.Done():
		r.Error(errors.New("it told no progress"))
	}
	if err := <-ended; err != nil {
		r.Error(err)
	}
	r.gets("mcp::everything::echo", `{"message":"after the cancel"}`)
}

// remembers asks for one change under one key again and again.
func (r *reference) remembers() {
	change := toolbus.Call{
		Tool: "mcp::memory::add_observations", Key: "key-of-the-observation",
		Input: jsontext.Value(`{"observations":[{"entityName":"Ada","contents":["writes"]}]}`),
	}
	r.gets("mcp::memory::create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":[]}]}`)
	for range 3 {
		if resp := r.asks(change); resp.Status != envelope.Success {
			r.Errorf("%v", resp.Error)
		}
	}
	if got := r.gets("mcp::memory::read_graph", `{}`); strings.Count(got, "writes") != 1 {
		r.Errorf("it remembers %s", got)
	}
}
