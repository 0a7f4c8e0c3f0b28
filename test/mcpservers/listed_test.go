package mcpservers

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/cli/mcpcmd"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	mcpadapter "github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// raw is a server that writes the tools of a file as they stand there, and instructions.
func raw(file string) int {
	tools, err := os.ReadFile(file)
	if err != nil {
		return 2
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(in.Bytes(), &req) != nil || req.ID == nil {
			continue
		}
		result := `{"tools":` + strings.ReplaceAll(string(tools), "\n", " ") + `}`
		switch req.Method {
		case "initialize":
			result = fmt.Sprintf(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"instructions":%q,`+
				`"serverInfo":{"name":"raw","version":"1.0.0"}}`, "How to use "+filepath.Base(file)+".\n")
		case "tools/list", "ping":
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no %s"}}`+"\n", req.ID, req.Method)
			continue
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, result)
	}
	return 0
}

// shelf are tools with what a list may have.
const shelf = `[
	{"name": "getUser", "title": "Get", "description": " Gets\n a user. ", "inputSchema": {"type": "object", "properties":
		{"id": {"type": "integer", "minimum": 1, "maximum": 9223372036854775807, "pattern": "^(?!0)"}}, "x-order": ["id"]},
		"outputSchema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["of"],
			"properties": {"of": {"$ref": "#/definitions/of"}}, "definitions": {"of": {"type": "string"}}},
		"annotations": {"readOnlyHint": true, "destructiveHint": false, "openWorldHint": false, "vendor": 1},
		"icons": [{"src": "data:image/png;base64,AA=="}], "execution": {"taskSupport": "forbidden"},
		"_meta": {"vendor/of": {"n": 9007199254740993}}},
	{"name": "getuser", "inputSchema": {"type": "object"}},
	{"name": "list", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}},
	{"name": "tree", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true, "destructiveHint": true},
		"outputSchema": {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object"}}}}
]`

// An imported tool is listed as its server lists it, but for its name and the member of the bus in _meta. Clients get
// the instructions of the servers. Both hold in both eras.
func TestListedAsServersDo(t *testing.T) {
	i := newImporter(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"two", "one"} {
		file := filepath.Join(t.TempDir(), name+".json")
		if err := os.WriteFile(file, []byte(shelf), 0o600); err != nil {
			t.Fatal(err)
		}
		i.adds(name, client.Server{Command: self, Args: []string{"raw", file}})
	}
	door := mcp.New(t.Context(), i.bus().Client, mcp.Options{})
	defer door.Close()
	for _, protocol := range []string{"2026-07-28", "2025-11-25"} {
		lines := &tap{}
		in, asks := io.Pipe()
		hears, out := io.Pipe()
		served := make(chan error, 1)
		go func() { served <- errors.Join(door.Serve(t.Context(), in, out), out.Close()) }()
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		session, err := client.Connect(t.Context(),
			&sdk.LoggingTransport{Transport: &sdk.IOTransport{Reader: hears, Writer: asks}, Writer: lines},
			&sdk.ClientSessionOptions{ProtocolVersion: protocol})
		if err != nil {
			t.Fatal(err)
		}
		want := "# one\n\nHow to use one.json.\n\n\n# two\n\nHow to use two.json.\n"
		if got := session.InitializeResult().Instructions; got != want {
			t.Errorf("%s: instructions %q", protocol, got)
		}
		if _, err := session.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(session.Close(), <-served); err != nil {
			t.Fatal(err)
		}
		want = strings.NewReplacer(`"getUser"`, `"one_getUser"`, `"getuser"`, `"one_getuser"`, `"list"`, `"one_list"`,
			`"tree"`, `"one_tree"`).Replace(shelf)
		for n, members := range plainly(t, want) {
			meta, _ := members["_meta"].(map[string]any)
			if meta == nil {
				meta = map[string]any{}
			}
			if protocol < "2026-07-28" { // clients refuse an output schema that is not of an object at its top
				switch members["name"] {
				case "one_list":
					delete(members, "outputSchema")
				case "one_tree":
					members["outputSchema"] = map[string]any{"type": "object"}
				}
			}
			meta["io.toolbus/tool_version"], members["_meta"] = "1.0.0", meta
			meta["io.toolbus/effect_level"] = "NonIdempotentWrite"
			if n == 0 {
				meta["io.toolbus/effect_level"] = "IdempotentWrite" // and read_only
			}
			if diff := cmp.Diff(members, lines.tools(t)[n]); diff != "" {
				t.Errorf("%s: tool %d (-want +got):\n%s", protocol, n, diff)
			}
		}
	}
}

// tap keeps what a client reads.
type tap struct{ text strings.Builder }

// Write implements io.Writer.
func (w *tap) Write(p []byte) (int, error) { return w.text.Write(p) }

// tools returns the entries of the last list that the client read.
func (w *tap) tools(t *testing.T) []map[string]any {
	t.Helper()
	lines := strings.Split(w.text.String(), "\n")
	for n := len(lines) - 1; n >= 0; n-- {
		_, message, read := strings.Cut(lines[n], "read: ")
		if _, list, found := strings.Cut(message, `"tools":`); read && found {
			d := json.NewDecoder(strings.NewReader(list))
			var first json.RawMessage
			if err := d.Decode(&first); err != nil {
				t.Fatal(err)
			}
			return plainly(t, string(first))
		}
	}
	t.Fatalf("no list in %s", w.text.String())
	return nil
}

// plainly are objects with their numbers as they are written.
func plainly(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// What JSON libraries do not read alike, in the definition of one tool, takes no tool of the server away.
func TestListedMended(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, odd := range []string{
		`"description":"\ud800 x"`, `"description":"a","description":"b"`, "\"description\":\"\xff\"", `"x":{"n":1e999}`,
		`"x":NaN`,
		`"outputSchema":null,"annotations":null,"title":null`, `"inputSchema":{"type":"object","description":"\udfff"}`,
	} {
		file := filepath.Join(t.TempDir(), "shelf.json")
		shelf := `[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","inputSchema":{"type":"object"},` + odd + `}]`
		if err := os.WriteFile(file, []byte(shelf), 0o600); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		out, err := runs(t, mcpcmd.Import, "--tools", dir, "--name", "x", self, "raw", file)
		if err != nil || !strings.HasSuffix(out, "\n0 left out\n") {
			t.Errorf("%q: %v\n%s", odd, err, out)
		}
		if _, err := tool.Load(dir, mcpadapter.Describe()); err != nil {
			t.Errorf("%q: %v", odd, err)
		}
	}
}

// An import says what it leaves out, and fails.
func TestImportLeavesOut(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for shelf, want := range map[string]string{
		`[{"name":"a","inputSchema":{"type":"object"}}]`: "\n0 left out\n",
		`[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","title":5,"inputSchema":{"type":"object"}}]`: "" +
			"\n1 left out\n",
		`[{"name":"a","inputSchema":{"type":"object","pattern":"(?=x)"}},{"name":"b","inputSchema":{"type":"int"}}]`: "" +
			"\n1 left out\n",
	} {
		file := filepath.Join(t.TempDir(), "shelf.json")
		if err := os.WriteFile(file, []byte(shelf), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := runs(t, mcpcmd.Import, "--tools", t.TempDir(), "--name", "x", self, "raw", file)
		if left := !strings.HasPrefix(want, "\n0"); (err != nil) != left || !strings.HasSuffix(out, want) {
			t.Errorf("%s: %v\n%s", shelf, err, out)
		}
		if strings.Contains(shelf, "(?=x)") && !strings.Contains(out, "mcp::x::a: input schema/pattern is not checked") {
			t.Errorf("what is not checked is not said:\n%s", out)
		}
	}
}
