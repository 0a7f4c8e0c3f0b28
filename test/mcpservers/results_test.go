package mcpservers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/ijson"
	"github.com/seed-018f16cc/toolbus/internal/mcpmeta"
	"github.com/seed-018f16cc/toolbus/tool/mcp/upstream"
)

// said is what a server says of a call, and what a client gets of it through the bus.
type said struct {
	result string
	want   string   // of a client; "" is result
	last   []string // pieces of the last block, which is the bus's; nil is no such block
}

var long = strings.Repeat("a line of the compiler's output\n\tand \"another\" one\n", 400)

// saidBy are results as servers send them that the author of the bus did not foresee, by the name of the tool.
var saidBy = map[string]said{
	"plain": {result: `{"content":[{"type":"text","text":"hello"}]}`},
	"all": {result: `{"content":[{"type":"text","text":"a\nb\t<é>","annotations":{"audience":["user"],` +
		`"priority":0.5}},` +
		`{"type":"image","data":"aGk","mimeType":"image/png"},{"type":"audio","data":"_-8",` +
		`"mimeType":"audio/wav","_meta":{"x":1}},` +
		`{"type":"resource_link","uri":"file:///x","name":"x","size":"12","icons":[{"src":"x"}]},` +
		`{"type":"resource","resource":{"uri":"u","blob":"***","mimeType":"x"}},{"type":"hologram",` +
		`"layers":[1.0,2e0,-0]}],` +
		`"structuredContent":{"n":1.0,"list":[null,true],"deep":{"a":[{"b":{}}]}},"isError":false,` +
		`"_meta":{"vendor/trace":{"id":7},"io.toolbus/ref":"forged","progress":[1]},"vendorMember":{"x":[1,2]}}`,
		want: `{"content":[{"type":"text","text":"a\nb\t<é>","annotations":{"audience":["user"],"priority":0.5}},` +
			`{"type":"image","data":"aGk","mimeType":"image/png"},{"type":"audio","data":"_-8",` +
			`"mimeType":"audio/wav","_meta":{"x":1}},` +
			`{"type":"resource_link","uri":"file:///x","name":"x","size":"12","icons":[{"src":"x"}]},` +
			`{"type":"resource","resource":{"uri":"u","blob":"***","mimeType":"x"}},{"type":"hologram",` +
			`"layers":[1.0,2e0,-0]}],` +
			`"structuredContent":{"n":1.0,"list":[null,true],"deep":{"a":[{"b":{}}]}},"isError":false,` +
			`"_meta":{"vendor/trace":{"id":7},"progress":[1]},"vendorMember":{"x":[1,2]}}`},
	"numbers": {result: `{"content":[],"structuredContent":{"id":1234567890123456789,"huge":1e400,` +
		`"small":[-9007199254740993]}}`},
	"surrogates": {result: `{"content":[{"type":"text","text":"half \ud83d of it"}]}`},
	"deep": {result: `{"content":[],` +
		`"structuredContent":{"a":` + strings.Repeat("[", 80) + strings.Repeat("]", 80) + `}}`},
	"nan": {result: `{"content":[],"structuredContent":{"a":NaN,"b":[Infinity,-Infinity]}}`,
		want: `{"content":[],"structuredContent":{"a":null,"b":[null,null]}}`,
		last: []string{`Warning: the value at "/structuredContent/a" was replaced: the server sent NaN.`, `sent -Infinity.`}},
	"twice": {result: `{"content":[],"structuredContent":{"a":1,"b":2,"a":3}}`,
		want: `{"content":[],"structuredContent":{"b":2,"a":3}}`,
		last: []string{`an earlier member of the name at "/structuredContent/a" was replaced: the server sent 1.`}},
	"bytes": {result: "{\"content\":[{\"type\":\"text\",\"text\":\"caf\xe9\"}]}",
		want: "{\"content\":[{\"type\":\"text\",\"text\":\"caf\ufffd\"}]}", last: []string{`"/content/0/text" was replaced`}},
	"mistyped": {result: `{"content":{"text":"no list"},"isError":"no","_meta":7}`,
		want: `{"content":{"text":"no list"},"isError":"no"}`},
	"nothing": {result: `{}`, want: `{"content":[]}`},
	"unfit": {result: `{"content":[],"structuredContent":{"total":"seven"}}`,
		last: []string{"Warning: the output breaks the schema of the tool; /structuredContent/total must be integer"}},
	"fails": {result: `{"content":[{"type":"text","text":` + quoted(long) + `},{"type":"image","data":"aGk",` +
		`"mimeType":"x"}],` +
		`"structuredContent":{"exit":3,"id":1234567890123456789},"isError":true,"_meta":{"x":{"y":1}}}`,
		last: []string{"The tool reported this error itself.", "may have done a part of it before it failed"}},
	"fails_large": {result: `{"content":[{"type":"text","text":` + quoted(strings.Repeat(long, 12)) + `}],` +
		`"isError":true}`,
		last: []string{"The tool reported this error itself."}},
	"fails_absent": {result: `{"content":[{"type":"text","text":"ENOENT: no such file or directory,` +
		` open '/x'"}],"isError":true}`,
		last: []string{"does not exist"}},
	"fails_busy": {result: `{"content":[{"type":"text","text":"GitHub API: rate limit exceeded"}],"isError":true}`,
		last: []string{"called too often", "wait before you call it again"}},
}

func quoted(text string) string { return string(ijson.Quote(text)) }

// say runs a server of saidBy over standard input and output.
func say() int {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		if answer := answerTo(lines.Bytes()); answer != "" {
			fmt.Println(answer)
		}
	}
	return 0
}

// answerTo is the answer of that server to a message; "" for none.
func answerTo(message []byte) string {
	var m struct {
		ID     jsontext.Value `json:"id"`
		Method string         `json:"method"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		panic(err)
	}
	result := ""
	switch m.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"said",` +
			`"version":"1.0.0"}}`
	case "tools/list":
		var tools []string
		for name := range saidBy {
			output := ""
			if name == "unfit" {
				output = `,"outputSchema":{"type":"object","properties":{"total":{"type":"integer"}}}`
			}
			tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}%s}`, name, output))
		}
		slices.Sort(tools)
		result = `{"tools":[` + strings.Join(tools, ",") + `]}`
	case "tools/call":
		result = saidBy[m.Params.Name].result
	case "ping":
		result = `{}`
	}
	switch {
	case m.ID == nil:
		return ""
	case result == "":
		return `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32601,"message":"no such method"}}`
	}
	return `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`
}

// saidOverHTTP serves the same over HTTP, in events or not.
func saidOverHTTP(t *testing.T, events bool) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || err != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		answer := answerTo(body)
		switch {
		case answer == "":
			w.WriteHeader(http.StatusAccepted)
		case events:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: message\r\ndata: %s\r\n\r\n", answer)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestResults calls each tool through server, adapter, bus and door, over both transports of either side and in both
// protocols, and compares what the client gets with what the server said.
func TestResults(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, server := range map[string]upstream.Server{
		"stdio":  {Command: program, Args: []string{"said"}},
		"json":   {URL: saidOverHTTP(t, false)},
		"events": {URL: saidOverHTTP(t, true)},
	} {
		t.Run(name, func(t *testing.T) {
			i := newImporter(t)
			i.adds("said", server)
			b := i.bus()
			door := mcp.New(t.Context(), b.Client, mcp.Options{SearchAbove: -1})
			defer door.Close()
			h := httptest.NewServer(door.Handler())
			defer h.Close()
			defer h.CloseClientConnections()
			over := speakers(t, door, h.URL)
			for _, by := range slices.Sorted(maps.Keys(over)) {
				for tool, said := range saidBy {
					check(t, by+" "+tool, over[by](tool), said)
				}
			}
		})
	}
}

// speakers are ways to call a tool at a door; each returns the result as it is sent.
func speakers(t *testing.T, door *mcp.Door, url string) map[string]func(tool string) jsontext.Value {
	const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`
	id := 1
	call := func(tool, meta string) string {
		id++
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}%s}}`,
			id, "said_"+tool, meta)
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{},` +
		`"clientInfo":{"name":"x","version":"1"}}}`
	session := http.Header{"Mcp-Protocol-Version": {"2025-11-25"}}
	_, began := post(t, url, hello, http.Header{})
	session.Set("Mcp-Session-Id", began.Get("Mcp-Session-Id"))
	post(t, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session)
	old, modern := lines(t, door), lines(t, door)
	old(hello)
	return map[string]func(string) jsontext.Value{
		"HTTP 2026-07-28": func(tool string) jsontext.Value {
			text, _ := post(t, url, call(tool, ","+modernMeta), http.Header{"Mcp-Protocol-Version": {"2026-07-28"},
				"Mcp-Method": {"tools/call"}, "Mcp-Name": {"said_" + tool}})
			return resultIn(t, text)
		},
		"HTTP 2025-11-25": func(tool string) jsontext.Value {
			text, _ := post(t, url, call(tool, ""), session)
			return resultIn(t, text)
		},
		"stdio 2026-07-28": func(tool string) jsontext.Value { return resultIn(t, modern(call(tool, ","+modernMeta))) },
		"stdio 2025-11-25": func(tool string) jsontext.Value { return resultIn(t, old(call(tool, ""))) },
	}
}

// lines speaks to a door over pipes.
func lines(t *testing.T, door *mcp.Door) func(request string) string {
	in, ours := io.Pipe()
	theirs, out := io.Pipe()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = door.Serve(ctx, in, out) // ended below
	}()
	t.Cleanup(func() {
		_ = ours.Close()
		<-served
		stop()
	})
	from := bufio.NewReader(theirs)
	return func(request string) string {
		if _, err := io.WriteString(ours, request+"\n"); err != nil {
			t.Fatal(err)
		}
		for {
			line, err := from.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, `"id"`) {
				return line
			}
		}
	}
}

func post(t *testing.T, url, body string, header http.Header) (answer string, of http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), resp.Header
}

// resultIn returns the result in an answer.
func resultIn(t *testing.T, answer string) jsontext.Value {
	t.Helper()
	for line := range strings.Lines(answer) {
		line = strings.TrimPrefix(line, "data: ")
		for _, m := range ijson.Members(jsontext.Value(line)) {
			if m.Is("result") {
				return m.Value
			}
		}
	}
	t.Fatalf("no result in %.2000s", answer)
	return nil
}

// check compares a result with what its server said.
func check(t *testing.T, name string, got jsontext.Value, said said) {
	t.Helper()
	want := said.want
	if want == "" {
		want = said.result
	}
	var members []ijson.Member
	for _, m := range ijson.Members(got) {
		switch {
		case m.Is("resultType"):
			continue
		case m.Is("_meta"):
			others := slices.DeleteFunc(ijson.Members(m.Value), func(m ijson.Member) bool {
				return strings.HasPrefix(string(m.Plain()), mcpmeta.Prefix) || m.Is("io.modelcontextprotocol/serverInfo")
			})
			if len(others) == 0 {
				continue
			}
			m.Value = ijson.Object(others...)
		case m.Is("content") && said.last != nil:
			blocks := ijson.Items(m.Value)
			last := string(blocks[len(blocks)-1])
			for _, piece := range said.last {
				if !strings.Contains(last, strings.Trim(quoted(piece), `"`)) {
					t.Errorf("%s: no %q in the last block %s", name, piece, last)
				}
			}
			m.Value = ijson.Array(blocks[:len(blocks)-1]...)
		}
		members = append(members, m)
	}
	slices.SortStableFunc(members, func(a, b ijson.Member) int { return strings.Compare(string(a.Name), string(b.Name)) })
	wanted := ijson.Members(jsontext.Value(want))
	slices.SortStableFunc(wanted, func(a, b ijson.Member) int { return strings.Compare(string(a.Name), string(b.Name)) })
	if is, should := compact(t, ijson.Object(members...)), compact(t, ijson.Object(wanted...)); is != should {
		t.Errorf("%s:\ngot  %.3000s\nwant %.3000s", name, is, should)
	}
}

// compact returns JSON without space, with all escapes that need not be, but for halves of surrogate pairs.
func compact(t *testing.T, v jsontext.Value) string {
	t.Helper()
	v = jsontext.Value(strings.ReplaceAll(string(v), `\ud83d `, `HALF `))
	if err := v.Format(jsontext.AllowDuplicateNames(true)); err != nil {
		t.Fatalf("%v: %.300s", err, v)
	}
	return string(v)
}

// TestFailedResultIsKept holds that all who are told of a failed call get the whole result of its tool.
func TestFailedResultIsKept(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	i := newImporter(t)
	i.adds("said", upstream.Server{Command: program, Args: []string{"said"}})
	b := i.bus()
	for _, name := range []string{"fails_absent", "fails_large"} {
		e := b.fails("mcp::said::"+name, `{}`, "P-PRECOND-TOOL_ERROR", envelope.EffectUnknown)
		if got := compact(t, e.Details.ToolResult); got != compact(t, jsontext.Value(saidBy[name].result)) {
			t.Errorf("%s: %.300s", name, got)
		}
		if (e.Details.ToolResultRef != nil) != (name == "fails_large") {
			t.Errorf("%s: by reference: %v", name, e.Details.ToolResultRef)
		}
	}
}
