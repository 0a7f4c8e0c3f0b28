package tooltest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// The functions of the tool that the suite calls.
const (
	FnEcho      = "echo"       // outputs the tool.Invocation as the tool receives it
	FnChunks    = "chunks"     // emits Input.N chunks, each followed by a progress and a log line
	FnFail      = "fail"       // fails with Input.Fault
	FnEffects   = "effects"    // outputs with a side effect and a warning
	FnBig       = "big"        // outputs a string of Input.N bytes
	FnFlood     = "flood"      // emits chunks until it is stopped
	FnWait      = "wait"       // emits one chunk and waits until it is stopped
	FnBadOutput = "bad_output" // outputs invalid JSON
	FnCrash     = "crash"      // ends without an answer
	// FnDaemons exists only if runs have processes. The tool, and a daemon that left its session and ignores SIGTERM,
	// connect to the unix socket Input.Socket and wait.
	FnDaemons = "daemons"
)

// Keys that the tool's lookup knows. Any other key is absent.
const (
	KeyCommitted = "committed-0123456789"
	KeyBroken    = "broken-0123456789" // the lookup fails with the error "busy"
)

// Input is the input of the functions.
type Input struct {
	N      int    `json:"n,omitzero"`
	Text   string `json:"text,omitzero"`
	Socket string `json:"socket,omitzero"`
	Fault  *Fault `json:"fault,omitzero"`
}

// Fault is the error of FnFail.
type Fault struct {
	Code         string          `json:"code"`
	Message      string          `json:"message"`
	Details      jsontext.Value  `json:"details,omitzero"`
	Effect       envelope.Effect `json:"effect,omitzero"`
	RetryAfterMS int64           `json:"retry_after_ms,omitzero"`
}

// Behave is the tool, except for functions that depend on the transport: FnCrash panics, and FnDaemons is missing.
func Behave(ctx context.Context, inv tool.Invocation, sink tool.Sink) (tool.Result, error) {
	var in Input
	if err := json.Unmarshal(inv.Input, &in); err != nil {
		return tool.Result{}, err
	}
	switch inv.Fn {
	case FnEcho:
		return output(inv)
	case FnChunks:
		return chunks(ctx, in.N, sink)
	case FnFail:
		return tool.Result{}, in.Fault.err()
	case FnEffects:
		return tool.Result{
			Output:      jsontext.Value(`{}`),
			SideEffects: []jsontext.Value{jsontext.Value(`{"kind":"write","target":"file:///x"}`)},
			Warnings:    []string{"half of it only"},
		}, nil
	case FnBig:
		return output(strings.Repeat("x", in.N))
	case FnFlood:
		return flood(ctx, sink)
	case FnWait:
		return wait(ctx, sink)
	case FnBadOutput:
		return tool.Result{Output: jsontext.Value(`{"a":`)}, nil
	case FnCrash:
		panic("crash as asked")
	}
	return tool.Result{}, fmt.Errorf("unknown function %q", inv.Fn)
}

// TextRefused is the Input.Text of calls that BehaveValidate refuses with the error "refused".
const TextRefused = "refuse me"

// BehaveValidate is the check of the tool's calls.
func BehaveValidate(_ context.Context, inv tool.Invocation) error {
	var in Input
	if err := json.Unmarshal(inv.Input, &in); err != nil {
		return err
	}
	switch in.Text {
	case TextRefused:
		return &tool.Error{Code: "refused", Message: "not this text"}
	case "panic":
		panic("check as asked")
	}
	return nil
}

// BehaveLookup is the tool's lookup.
func BehaveLookup(_ context.Context, inv tool.Invocation) (tool.Result, bool, error) {
	switch inv.IdempotencyKey {
	case KeyCommitted:
		result, err := output(inv)
		return result, true, err
	case KeyBroken:
		return tool.Result{}, false, &tool.Error{Code: "busy", Message: "too many lookups"}
	}
	return tool.Result{}, false, nil
}

// Attend connects to the unix socket, and writes to it until the connection or this process ends. So the listener sees
// when this process has ended.
func Attend(socket string) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	for range time.Tick(5 * time.Millisecond) {
		if _, err := conn.Write([]byte{'.'}); err != nil {
			return err
		}
	}
	return nil
}

func chunks(ctx context.Context, n int, sink tool.Sink) (tool.Result, error) {
	for i := range n {
		for _, kind := range []envelope.ChunkKind{envelope.ChunkData, envelope.ChunkProgress, envelope.ChunkLog} {
			if err := sink.Emit(ctx, kind, jsontext.Value(fmt.Sprintf(`{"i":%d}`, i))); err != nil {
				return tool.Result{}, err
			}
		}
	}
	return output(n)
}

func flood(ctx context.Context, sink tool.Sink) (tool.Result, error) {
	data := jsontext.Value(`"` + string(bytes.Repeat([]byte{'x'}, 4096)) + `"`)
	for {
		if err := sink.Emit(ctx, envelope.ChunkData, data); err != nil {
			return tool.Result{}, err
		}
	}
}

func wait(ctx context.Context, sink tool.Sink) (tool.Result, error) {
	if err := sink.Emit(ctx, envelope.ChunkProgress, jsontext.Value(`"started"`)); err != nil {
		return tool.Result{}, err
	}
	<-ctx.Done()
	return tool.Result{}, ctx.Err()
}

func (f *Fault) err() *tool.Error {
	return &tool.Error{
		Code: f.Code, Message: f.Message, Details: f.Details, Effect: f.Effect,
		RetryAfter: time.Duration(min(f.RetryAfterMS, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond,
	}
}

func output(v any) (tool.Result, error) {
	raw, err := json.Marshal(v)
	return tool.Result{Output: raw}, err
}
