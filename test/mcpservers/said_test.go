package mcpservers

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// said has the answer of a server to a call, and the result that a client gets through the bus.
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
		last: []string{`Warning: the value at "/structuredContent/a" was replaced: the tool sent NaN.`, `sent -Infinity.`}},
	"twice": {result: `{"content":[],"structuredContent":{"a":1,"b":2,"a":3}}`,
		want: `{"content":[],"structuredContent":{"b":2,"a":3}}`,
		last: []string{`an earlier member of the name at "/structuredContent/a" was replaced: the tool sent 1.`}},
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

// saidOverHTTP serves the same over HTTP, in events or not. It answers calls once hold is closed, if that is not nil.
func saidOverHTTP(t *testing.T, events bool, hold <-chan struct{}) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || err != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if hold != nil && bytes.Contains(body, []byte("tools/call")) {
			<-hold
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
