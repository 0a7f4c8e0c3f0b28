package toolbus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// The words of the sources about the log: 000 §9 and 004 §4.2.
const (
	fields000 = "* **Logs**: structured, include `tool_id`, `fn`, `call_id`, `status`, `duration_ms`, and `error.code` " +
		"if present."
	fields004 = `{
  "timestamp": "2026-02-21T11:20:00.000Z",
  "level": "info",
  "event": "tool_invocation",
  "requestId": "abc123",
  "traceId": "trace-456",
  "tool": "exec",
  "action": "run",
  "durationMs": 1523,
  "status": "success"
}`
)

// output is a log that several goroutines write to.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// events returns the lines of the log that are outcomes, by the members of their objects.
func (o *output) events(t *testing.T) (all []map[string]any) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range strings.Lines(o.text.String()) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if one["event"] == "tool_invocation" {
			all = append(all, one)
		}
	}
	return all
}

// logged runs a bus whose dispatcher and executor have logs of their own.
func logged(t *testing.T, tools *toolbus.Toolset, sample float64) (b *toolbustest.Bus, logs []*output, stop func()) {
	t.Helper()
	logs = []*output{{}, {}}
	var of []toolbus.Options
	for _, to := range logs {
		log := slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug}))
		of = append(of, toolbus.Options{Logger: log, LogSample: sample})
	}
	b, stop = apart(t, tools, of[0], of[1])
	return b, logs, stop
}

// wantFields checks that an event has each field that the sources name, and the values of a call. The handler of the
// log writes timestamp and level.
func wantFields(t *testing.T, e map[string]any, call toolbus.Call) {
	t.Helper()
	var sample map[string]any
	if err := json.Unmarshal([]byte(fields004), &sample); err != nil {
		t.Fatal(err)
	}
	delete(sample, "timestamp")
	delete(sample, "level")
	for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(fields000, -1) {
		sample[name[1]] = nil
	}
	if e["status"] == "success" {
		delete(sample, "error.code")
	}
	for name := range sample {
		if _, ok := e[name]; !ok {
			t.Errorf("%s is not in %v", name, e)
		}
	}
	fn := call.Function
	if fn == "" && e["stage"] == nil {
		fn = "run"
	}
	same := map[string][]any{"tool_id": {call.Tool, e["tool"]}, "call_id": {call.CallID, e["requestId"]},
		"duration_ms": {e["durationMs"]}, "traceId": {call.Context.TraceID}, "fn": {e["action"]}}
	if fn != "" {
		same["fn"] = append(same["fn"], fn)
	}
	for name, values := range same {
		for _, want := range values {
			if e[name] != want {
				t.Errorf("%s is %v, want %v, in %v", name, e[name], want, e)
			}
		}
	}
}

// task is the input of the tool of these tests.
type task struct {
	Do     string `json:"do"`
	Secret string `json:"secret,omitempty"`
}

// worker returns a tool that ends as its input says, and puts its input into its outputs and errors.
func worker(t *testing.T) *toolbus.Toolset {
	tools := toolbus.NewToolset()
	about := toolbus.Tool{ID: "work", Version: "2.0.0", Class: toolbus.Pure, Errors: []*toolbus.ToolError{errBusy}}
	must(t, tools, about, func(ctx context.Context, _ *toolbus.Run, in task) (string, error) {
		switch in.Do {
		case "busy":
			return "", errBusy.Because("%s", in.Secret)
		case "wait":
			<-ctx.Done()
			return "", ctx.Err()
		}
		return in.Secret, nil
	})
	return tools
}

const secret = "correct-horse-battery"

// Each outcome is logged once, by the process that decided it, with the fields of the sources under their names, and
// with no value of an input. A stored outcome that is sent again is not logged again.
func TestLogs(t *testing.T) {
	b, logs, stop := logged(t, worker(t), 0)
	c := client(t, b.URL, toolbus.ClientOptions{})
	const id = "0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a0"
	calls := map[string]toolbus.Call{}
	call := func(o toolbus.Call, do string) *toolbus.Response {
		t.Helper()
		o.CallID, o.Context.TraceID = fmt.Sprint(id, len(calls)), fmt.Sprint("9"+id[1:], len(calls))
		if o.Tool == "" {
			o.Tool = "work"
		}
		o.Input = []byte(`{"do":` + do + `,"secret":"` + secret + `"}`)
		calls[o.CallID] = o
		r, err := toolbus.Outcome(c.Call(t.Context(), o))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	ended := []*toolbus.Response{
		call(toolbus.Call{Key: "the-same-key-twice"}, `"ok"`),
		call(toolbus.Call{}, `"busy"`),
		call(toolbus.Call{Timeout: 200 * time.Millisecond}, `"wait"`),
		call(toolbus.Call{}, `5`),
		call(toolbus.Call{Tool: "made.up"}, `"ok"`),
		call(toolbus.Call{Function: "made_up"}, `"ok"`),
	}
	call(toolbus.Call{Key: "the-same-key-twice"}, `"ok"`)
	stop()

	said := map[string]map[string]any{}
	for _, log := range logs {
		for _, e := range log.events(t) {
			id := e["call_id"].(string)
			if said[id] != nil {
				t.Errorf("logged twice: %v", e)
			}
			said[id] = e
			wantFields(t, e, calls[id])
		}
		if strings.Contains(log.text.String(), secret) {
			t.Errorf("the input is in %s", &log.text)
		}
	}
	if len(said) != len(ended) {
		t.Errorf("%d outcomes are logged, want %d", len(said), len(ended))
	}
	for _, r := range ended {
		e := said[r.CallID]
		if e["status"] != string(r.Status) || e["duration_ms"] != float64(r.Metrics.DurationMS) ||
			r.Error != nil && e["error.code"] != string(r.Error.Code) {
			t.Errorf("logged %v of %+v", e, r)
		}
	}
}

// LogSample leaves out successes by their references, so that every process leaves out the same, and no error.
func TestLogSample(t *testing.T) {
	var of []map[string]bool
	var refs []string
	for range 2 {
		b, logs, stop := logged(t, worker(t), 0.5)
		c := client(t, b.URL, toolbus.ClientOptions{})
		const calls = 40
		for i := range calls {
			do, retry := "ok", &envelope.RetryPolicy{MaxAttempts: 1}
			if i%4 == 0 {
				do = "busy"
			}
			_, err := toolbus.Outcome(c.Call(t.Context(), toolbus.Call{
				Tool: "work", Input: []byte(`{"do":"` + do + `"}`), Key: fmt.Sprint("a-key-of-this-test-", i), Retry: retry,
			}))
			if err != nil {
				t.Fatal(err)
			}
		}
		stop()
		logged := map[string]bool{}
		for _, e := range slices.Concat(logs[0].events(t), logs[1].events(t)) {
			if e["status"] == "success" {
				logged[e["ref"].(string)] = true
			} else {
				refs = append(refs, e["ref"].(string))
			}
		}
		if n := len(logged); n < 5 || n > 25 {
			t.Errorf("%d of 30 successes are logged", n)
		}
		of = append(of, logged)
	}
	if len(refs) != 20 {
		t.Errorf("%d of 20 errors are logged", len(refs))
	}
	if diff := gocmp.Diff(of[0], of[1]); diff != "" {
		t.Errorf("the same calls have other samples: %s", diff)
	}
}
