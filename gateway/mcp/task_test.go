package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// rpcResponse is an answer to a request as it is.
type rpcResponse struct {
	Result struct {
		ResultType, TaskID, Status string
		CreatedAt                  string
		Meta                       map[string]any `json:"_meta"`
		TTLMs, PollIntervalMs      float64
		Result                     struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	Error struct {
		Code    int
		Message string
	}
}

const knowing = `"extensions":{"io.modelcontextprotocol/tasks":{}}`

// ask sends a request of 2026-07-28 of a client that has those capabilities.
func ask(t *testing.T, url, method, name, params, has string) (a rpcResponse) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{%s}}}}`,
		method, params, has)
	_, text := post(t, url, body, http.Header{
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "Mcp-Name": {name},
	})
	for line := range strings.Lines(text) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			text = data
		}
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return a
}

func about(t *testing.T, url, method, id string) rpcResponse {
	t.Helper()
	return ask(t, url, method, id, fmt.Sprintf(`"taskId":%q`, id), knowing)
}

// eventually asks for a task until it has ended.
func eventually(t *testing.T, url, id string) rpcResponse {
	t.Helper()
	for {
		if a := about(t, url, "tasks/get", id); a.Result.Status != "working" {
			return a
		}
	}
}

// A long call becomes a task, for which any door answers, and its owner alone.
func TestTasks(t *testing.T) {
	f := start(t)
	o := mcp.Options{TaskAfter: time.Millisecond}
	first, second := open(t, mcp.New(t.Context(), f.Client, o)), open(t, mcp.New(t.Context(), f.Client, o))
	call := func(text string) string {
		t.Helper()
		a := ask(
			t,
			first.URL,
			"tools/call",
			"hold",
			fmt.Sprintf(`"name":"hold","arguments":{"text":%q}`, text),
			knowing,
		)
		if r := a.Result; r.ResultType != "task" || r.Status != "working" || r.TaskID == "" || r.TTLMs < 1 ||
			r.PollIntervalMs < 1 {
			t.Fatalf("%+v", a)
		}
		<-f.held
		return a.Result.TaskID
	}
	id, other := call("done"), call("cancelled")
	forged := []string{
		strings.ToUpper(id[:1]) + id[1:], "0" + id, "-" + id, "+" + id, "zzzz" + id, strings.Replace(id, "hold", "echo", 1),
	}
	for _, name := range forged {
		if a := about(t, first.URL, "tasks/get", name); a.Error.Code != -32602 {
			t.Errorf("%s is %+v", name, a)
		}
	}
	if a := about(t, second.URL, "tasks/get", id); a.Result.Status != "working" || a.Result.ResultType != "complete" {
		t.Errorf("%+v", a)
	}
	if a := about(t, second.URL, "tasks/cancel", other); a.Result.ResultType != "complete" || a.Result.Status != "" {
		t.Errorf("%+v", a)
	}
	if err := <-f.ends; err == nil {
		t.Error("the work of a cancelled task went on")
	}
	close(f.hold)
	if a := eventually(t, second.URL, id); a.Result.Status != "completed" ||
		a.Result.Result.Content[0].Text != `{"text":"done"}` {
		t.Errorf("%+v", a)
	}
	if a := eventually(t, first.URL, other); a.Result.Status != "cancelled" {
		t.Errorf("%+v", a)
	}
	if a := about(t, second.URL, "tasks/update", id); a.Result.ResultType != "complete" {
		t.Errorf("%+v", a)
	}

	// Nobody else is told anything.
	stranger, err := f.Conn.Client(toolbus.ClientOptions{Actor: "agent://stranger"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stranger.Close() })
	theirs := open(t, mcp.New(t.Context(), stranger, o))
	guesses := []string{
		id,
		other,
		id + "0",
		"1.hold." + strings.Repeat("0", 32),
		"1.echo",
		"x",
		"..",
		"1.nothing.0",
		"1..",
		id[1:],
	}
	for _, guess := range guesses {
		for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
			if a := about(t, theirs.URL, method, guess); a.Error.Code != -32602 || a.Result.Status != "" {
				t.Errorf("%s %s: %+v", method, guess, a)
			}
		}
	}
}

// The answer that is a task says what its call is found by, and the task says it later, too.
func TestTaskNames(t *testing.T) {
	f := start(t)
	s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{TaskAfter: time.Millisecond}))
	made := ask(t, s.URL, "tools/call", "hold", `"name":"hold","arguments":{"text":"a"}`, knowing).Result
	key, _ := made.Meta[envelope.MetaIdempotencyKey].(string)
	ref, _ := made.Meta[envelope.MetaRef].(string)
	if key == "" || !strings.HasPrefix(ref, "hold.") || !strings.HasSuffix(made.TaskID, ref) {
		t.Errorf("%+v", made)
	}
	is := about(t, s.URL, "tasks/get", made.TaskID).Result
	if is.Meta[envelope.MetaRef] != ref || is.CreatedAt != made.CreatedAt {
		t.Errorf("%+v of %+v", is, made)
	}
	close(f.hold)
}

func TestTasksRefused(t *testing.T) {
	f := start(t)
	s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{TaskAfter: time.Nanosecond}))
	a := ask(t, s.URL, "tools/call", "echo", `"name":"echo","arguments":{"text":"a"}`, "")
	if a.Result.ResultType != "complete" {
		t.Errorf("a client that knows no tasks: %+v", a)
	}
	if a := ask(t, s.URL, "tasks/get", "x", `"taskId":"x"`, ""); a.Error.Code != -32021 {
		t.Errorf("a client that knows no tasks: %+v", a)
	}
	if a := ask(t, s.URL, "tasks/get", "y", `"taskId":"x"`, knowing); a.Error.Code != -32020 {
		t.Errorf("a header that names another task: %+v", a)
	}
	a = ask(t, s.URL, "tools/call", "count", `"name":"count","arguments":{"input":1000}`, knowing)
	if a.Result.ResultType != "complete" {
		t.Errorf("a tool that streams: %+v", a)
	}
	none := open(t, mcp.New(t.Context(), f.Client, mcp.Options{TaskAfter: -1}))
	if a := ask(t, none.URL, "tasks/get", "x", `"taskId":"x"`, knowing); a.Error.Code != -32601 {
		t.Errorf("a door without tasks: %+v", a)
	}
}

// A bus that does not say whether it has a call keeps nobody waiting beyond its deadline.
func TestTaskSilent(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect(t)
	for _, deaf := range []string{subjects.ServiceWildcard(subjects.OpResult), subjects.CallWildcard} {
		if _, err := nc.Subscribe(deaf, func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
	}
	tool := envelope.ToolInfo{ToolID: "echo", Version: "1.0.0", Status: "active",
		Functions: map[string]envelope.FunctionInfo{
			"run": {Request: jsontext.Value(`{"type":"object"}`), Response: jsontext.Value(`{"type":"object"}`)},
		}}
	log := slog.New(slog.DiscardHandler)
	svc, err := rpc.Serve(context.WithoutCancel(t.Context()), nc, log, "0.0.1", time.Now, []rpc.Endpoint{{
		Op: subjects.OpDescribe, Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) {
			return envelope.DescribeResponse{NowUnixMS: time.Now().UnixMilli(), Tools: []envelope.ToolInfo{tool}}, nil
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = svc.Stop() }) // the connection ends next
	conn, err := toolbus.Connect(t.Context(), srv.URL, toolbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	client, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s := open(t, mcp.New(t.Context(), client, mcp.Options{TaskAfter: 50 * time.Millisecond}))
	body, header := modern("1", "echo", "{}", `"io.toolbus/deadline_ms":300,`)
	body = strings.Replace(body, `clientCapabilities":{}`, `clientCapabilities":{`+knowing+`}`, 1)
	began := time.Now()
	_, answer := post(t, s.URL, body, header)
	if took := time.Since(began); !strings.Contains(answer, "R-TIMEOUT-001") || took > 3*time.Second {
		t.Errorf("%s after %s", answer, took)
	}
}
