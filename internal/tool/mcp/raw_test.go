//go:build linux

package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// raw is a server written by hand, each of whose tools does one thing that no server should.
type raw struct {
	out    *bufio.Writer
	late   json.RawMessage // id of a call that is answered with the next one
	lists  int             // answers to tools/list
	gaveUp int             // calls that its client has cancelled
	how    string          // further behavior: "mute" sends nothing at all, "endless" lists tools without end, and so on
}

type rawMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Raw       json.RawMessage `json:"arguments"`
		Arguments struct {
			Text string `json:"text"`
			N    int    `json:"n"`
		} `json:"-"`
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

// rawTools are the names of the server's tools.
const rawTools = "echo hang flood twice late huge half die noise task input content number deep drown silent environ " +
	"pid cut gave_up arguments coded worded wordless"

// slow is how long a slow server takes to start: longer than it takes until it is greeted again.
const slow = 3 * time.Second

func misbehave(args []string) int {
	r := &raw{out: bufio.NewWriter(os.Stdout), how: strings.Join(args, " ")}
	if how, file, ok := strings.Cut(r.how, " in "); ok { // it notes that it starts
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return 4
		}
		fmt.Fprintln(f, "started")
		_ = f.Close()
		r.how = how
	}
	if r.how == "slow" { // as one that is downloaded first
		ctx, cancel := context.WithTimeout(context.Background(), slow)
		defer cancel()
		<-ctx.Done()
	}
	fmt.Println("a greeting that is no message")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var m rawMessage
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return 2
		}
		if m.Params.Raw != nil && json.Unmarshal(m.Params.Raw, &m.Params.Arguments) != nil {
			return 3
		}
		r.take(m)
		_ = r.out.Flush()
	}
	return 0
}

func (r *raw) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

func (r *raw) answer(id json.RawMessage, result string) {
	r.say(`{"result":%s,"jsonrpc":"2.0","id":%s}`, result, id) // as the SDK of TypeScript orders them
}

func (r *raw) take(m rawMessage) {
	if r.how == "texts" && m.ID != nil {
		m.ID = fmt.Appendf(nil, "%q", m.ID)
	}
	switch {
	case r.how == "older" && m.Method == "server/discover":
		r.how = "mute" // as servers are whose reader has failed
	case r.how == "older ends" && m.Method == "server/discover":
		syscall.Exit(1)
	}
	if r.how == "mute" || r.how == "ignores" && m.Method == "server/discover" {
		return
	}
	switch m.Method {
	case "initialize":
		r.answer(m.ID,
			`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`)
	case "tools/list":
		if r.how == "listless" {
			select {}
		}
		var tools []string
		for name := range strings.FieldsSeq(rawTools) {
			tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
		}
		next := ""
		if r.how == "mistyped" {
			tools = append(tools, `{"name":"typed","inputSchema":7,"annotations":{"readOnlyHint":"yes"},"icons":7}`)
		}
		r.lists++
		switch r.how {
		case "endless":
			next = `,"nextCursor":"more"`
		case "endless turns":
			next = fmt.Sprintf(`,"nextCursor":"%d"`, r.lists%2)
		case "endless counts":
			next = fmt.Sprintf(`,"nextCursor":"%d"`, r.lists)
		case "huge numbers":
			tools = append(tools, `{"name":"far","inputSchema":{"type":"object","properties":{"n":{"maximum":1e400}}}}`)
		}
		r.answer(m.ID, `{"tools":[`+strings.Join(tools, ",")+`]`+next+`}`)
	case "tools/call":
		r.call(m)
	case "notifications/cancelled":
		r.gaveUp++
	case "ping":
		r.answer(m.ID, "{}")
	default:
		if m.ID != nil {
			r.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		}
	}
}

// text is a result.
func text(of string) string {
	quoted, err := json.Marshal(of)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"content":[{"type":"text","text":%s}],"structuredContent":{"text":%s}}`, quoted, quoted)
}

func (r *raw) call(m rawMessage) {
	arguments := m.Params.Arguments
	switch m.Params.Name {
	case "echo":
		if r.late != nil { // the one before, after it was given up
			r.answer(r.late, text("late"))
			r.late = nil
		}
		r.answer(m.ID, text(arguments.Text))
	case "hang": // and does not even answer a ping
		select {}
	case "silent":
	case "begun": // and says no more
		r.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":0}}`,
			m.Params.Meta.Token)
	case "late":
		r.late = m.ID
	case "flood":
		for i := range arguments.N {
			r.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`,
				m.Params.Meta.Token, i)
		}
		r.answer(m.ID, text("flooded"))
		r.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":-1}}`,
			m.Params.Meta.Token)
	case "twice":
		r.answer(m.ID, text("first"))
		r.answer(m.ID, text("second"))
	case "huge":
		r.answer(m.ID, text(strings.Repeat("x", arguments.N)))
	case "half":
		r.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[}`, m.ID)
	case "die":
		fmt.Fprintln(os.Stderr, "dying as asked")
		syscall.Exit(3)
	case "noise":
		r.say("something that is no message")
		r.say(`{"jsonrpc":"2.0","debug":"a line of a log"}`)
		r.say(`received {"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{}}`, m.ID)
		r.say(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{…}}`, m.ID)
		r.say(`{"jsonrpc":"2.0","result":{…}}`)
		r.say(`{"jsonrpc":"2.0","id":"another","result":{}}`)
		r.say(`{"jsonrpc":"2.0","id":99999,"result":{}}`)
		r.answer(m.ID, text(arguments.Text))
	case "task":
		r.answer(m.ID, `{"resultType":"task","task":{"taskId":"t"}}`)
	case "input":
		r.answer(m.ID, `{"resultType":"input_required","inputRequests":{}}`)
	case "torn":
		r.answer(m.ID, `{"resultType":"input_required","inputRequests":{},"requestState":"half \ud83d"}`)
	case "mistyped":
		r.answer(m.ID, `{"resultType":"input_required","inputRequests":[]}`)
	case "content":
		r.answer(m.ID, `{"content":{"text":"no list"}}`)
	case "number":
		r.answer(m.ID, `7`)
	case "deep":
		r.say(`{"jsonrpc":"2.0","id":%s,"result":%s%s}`, m.ID, strings.Repeat("[", 500_000), strings.Repeat("]", 500_000))
	case "cut":
		answer := fmt.Sprintf(`{"result":%s,"jsonrpc":"2.0","id":%s}`, text("whole"), m.ID)
		_, _ = r.out.WriteString(answer[:min(len(answer), arguments.N)])
		_ = r.out.Flush()
		syscall.Exit(1)
	case "gave_up":
		r.answer(m.ID, text(fmt.Sprint(r.gaveUp)))
	case "arguments":
		r.answer(m.ID, text(string(m.Params.Raw)))
	case "coded":
		r.answer(m.ID, `{"isError":true,"content":[{"type":"text","text":"later"}],`+
			`"structuredContent":{"error":{"code":"busy"}}}`)
	case "worded":
		r.answer(m.ID, `{"isError":true,"content":[{"type":"text","text":"ENOENT: no such file"}]}`)
	case "wordless":
		r.answer(m.ID, `{"isError":true}`)
	case "environ":
		r.answer(m.ID, text(strings.Join(os.Environ(), "\n")))
	case "pid":
		r.answer(m.ID, text(fmt.Sprint(os.Getpid())))
	case "drown":
		for i := range 20_000 {
			r.say(`{"jsonrpc":"2.0","id":"d%d","method":"ping"}`, i)
		}
		r.answer(m.ID, text("drowned"))
	default:
		r.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"unknown tool"}}`, m.ID)
	}
}
