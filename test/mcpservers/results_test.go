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
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// TestResults calls each tool through server, adapter, bus and door, over both transports of either side and in both
// protocols, and compares what the client gets with what the server said.
func TestResults(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, server := range map[string]client.Server{
		"stdio":  {Command: program, Args: []string{"said"}},
		"json":   {URL: saidOverHTTP(t, false, nil)},
		"events": {URL: saidOverHTTP(t, true, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			i := newImporter(t)
			i.adds("said", server)
			b := i.bus()
			door := mcp.New(t.Context(), b.Client, mcp.Options{Search: mcp.Search{Above: -1}})
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
func speakers(t *testing.T, door *mcp.Server, url string) map[string]func(tool string) jsontext.Value {
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
func lines(t *testing.T, door *mcp.Server) func(request string) string {
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
				return strings.HasPrefix(string(m.Plain()), envelope.MetaPrefix) || m.Is("io.modelcontextprotocol/serverInfo")
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

// TestFailedResultIsKept: the whole result of a failed tool reaches the caller, a repeated call, a request for the
// outcome, and another actor with the same key.
func TestFailedResultIsKept(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	i := newImporter(t)
	i.adds("said", client.Server{Command: program, Args: []string{"said"}})
	b := i.bus()
	other, err := b.Conn.Client(toolbus.ClientOptions{Actor: "agent://other"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }() // with the test
	for name, apart := range map[string]bool{"fails_absent": false, "fails_large": true} {
		ref := ""
		call := toolbus.Call{
			Tool: "mcp::said::" + name, Key: "the same key of " + name, KeyScope: envelope.ScopeGlobal,
			Input:      jsontext.Value(`{}`),
			OnAccepted: func(a toolbus.Accepted) { ref = a.Ref },
		}
		told := map[string]*envelope.Response{"caller": b.asks(call)}
		again := call
		again.OnAccepted = nil
		told["caller again"] = b.asks(again)
		if told["other actor"], err = toolbus.Outcome(other.Call(t.Context(), again)); err != nil {
			t.Fatal(err)
		}
		if told["who asks for the outcome"], err = toolbus.Outcome(b.Result(t.Context(),
			toolbus.CallRef{Ref: ref})); err != nil {
			t.Fatal(err)
		}
		want := compact(t, jsontext.Value(saidBy[name].result))
		for who, r := range told {
			if r.Error == nil || r.Error.Code != "P-PRECOND-TOOL_ERROR" || len(r.Warnings) > 0 {
				t.Fatalf("%s, %s: %+v", name, who, r)
			}
			d := r.Error.Details
			if got := compact(t, d.ToolResult); got != want || (d.ToolResultRef != nil) != apart {
				t.Errorf("%s, %s: by reference %v: %.300s", name, who, d.ToolResultRef, got)
			}
		}
	}
}

// TestTaskOfFailedCall holds that a task has the result that an answer would have had.
func TestTaskOfFailedCall(t *testing.T) {
	hold := make(chan struct{})
	i := newImporter(t)
	i.adds("said", client.Server{URL: saidOverHTTP(t, false, hold)})
	b := i.bus()
	door := mcp.New(t.Context(), b.Client, mcp.Options{TaskAfter: time.Nanosecond})
	defer door.Close()
	ask := lines(t, door)
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	var task struct{ TaskID, Status string }
	first := resultIn(t, ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"said_fails","arguments":{},`+
		meta+`}}`))
	if err := json.Unmarshal(first, &task, json.MatchCaseInsensitiveNames(true)); err != nil || task.TaskID == "" {
		t.Fatalf("%s: %v", first, err)
	}
	close(hold)
	for n := 2; ; n++ {
		told := resultIn(t, ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tasks/get","params":{"taskId":%q,%s}}`,
			n, task.TaskID, meta)))
		if err := json.Unmarshal(told, &task, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		if task.Status == "working" {
			continue
		}
		for _, m := range ijson.Members(told) {
			if m.Is("result") {
				check(t, "task", m.Value, saidBy["fails"])
				return
			}
		}
		t.Fatalf("no result in %s", told)
	}
}
