package programtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/program"
)

// Line is any line of an answer.
type Line struct {
	Type        string               `json:"type"`
	Data        jsontext.Value       `json:"data,omitzero"`
	Output      jsontext.Value       `json:"output,omitzero"`
	SideEffects []program.SideEffect `json:"side_effects,omitzero"`
	Warnings    []string             `json:"warnings,omitzero"`
	Error       *Failure             `json:"error,omitzero"`
}

// Failure is the error of a terminal line.
type Failure struct {
	Code         string                    `json:"code"`
	Message      string                    `json:"message"`
	Details      map[string]jsontext.Value `json:"details,omitzero"`
	Effect       program.Effect            `json:"effect"`
	RetryAfterMS int64                     `json:"retry_after_ms,omitzero"`
}

// Answer is the output of a program for one call.
type Answer struct {
	Lines []Line // all lines, the terminal line last
	Raw   []byte
}

// Terminal returns the terminal line.
func (a Answer) Terminal() Line { return a.Lines[len(a.Lines)-1] }

// Data returns the data of all lines of a type: chunk, progress or log.
func (a Answer) Data(kind string) []jsontext.Value {
	var data []jsontext.Value
	for _, line := range a.Lines {
		if line.Type == kind {
			data = append(data, line.Data)
		}
	}
	return data
}

// Decode returns the output of a successful answer. It fails the test for any other answer.
func Decode[Out any](t testing.TB, a Answer) Out {
	t.Helper()
	var out Out
	if last := a.Terminal(); last.Type != "output" {
		t.Fatalf("no output but %s", a.Raw)
	} else if err := json.Unmarshal(last.Output, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// NewCall returns a call of fn with the given input, a Go value or a jsontext.Value.
func NewCall(t testing.TB, fn string, input any) program.Call {
	t.Helper()
	data, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	return program.Call{
		Op: program.OpExecute, CallID: "c7a2c5ce-3a43-4b0f-93a5-5b1e0d6a4f10", Fn: fn, Input: data,
		IdempotencyKey: "key-of-the-test-0001", Attempt: 1, Fence: 1, Digest: "sha256:" + strings.Repeat("0", 64),
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}
}

// Run runs one call in this process, and checks the answer against the protocol.
func Run(t testing.TB, tool program.Tool, call program.Call) Answer {
	t.Helper()
	var stdout bytes.Buffer
	if err := program.Run(t.Context(), tool, bytes.NewReader(encode(t, call)), &stdout); err != nil {
		t.Fatalf("%v, after %s", err, stdout.Bytes())
	}
	return parse(t, stdout.Bytes())
}

// Build builds the program in the test's folder and returns its path.
func Build(t testing.TB) string {
	t.Helper()
	built := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", built, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return built
}

// Exec runs one call as a process in the folder dir, with the environment env and with args, and checks the answer
// against the protocol.
func Exec(t testing.TB, built, dir string, env []string, call program.Call, args ...string) Answer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), built, args...)
	cmd.Dir, cmd.Env = dir, append([]string{}, env...)
	cmd.Stdin = bytes.NewReader(encode(t, call))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\nstdout %s\nstderr %s", cmd, err, stdout, stderr.Bytes())
	}
	return parse(t, stdout)
}

// Cancelled returns a context that has ended.
func Cancelled(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func encode(t testing.TB, call program.Call) []byte {
	t.Helper()
	data, err := json.Marshal(call)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parse(t testing.TB, stdout []byte) Answer {
	t.Helper()
	answer, err := parseAnswer(stdout)
	if err != nil {
		t.Fatalf("not an answer: %v\n%s", err, stdout)
	}
	return answer
}

// parseAnswer checks an answer as an executor does: known lines of limited length, exactly one terminal line, and
// nothing after it.
func parseAnswer(stdout []byte) (Answer, error) {
	answer := Answer{Raw: stdout}
	for raw := range bytes.Lines(stdout) {
		if len(raw) > program.MaxLine || raw[len(raw)-1] != '\n' {
			return answer, fmt.Errorf("line %d is too long or has no end", len(answer.Lines)+1)
		}
		if n := len(answer.Lines); n > 0 && terminal(answer.Lines[n-1].Type) {
			return answer, fmt.Errorf("line %d follows the terminal line", n+1)
		}
		var line Line
		if err := json.Unmarshal(raw, &line, json.RejectUnknownMembers(true)); err != nil {
			return answer, err
		}
		answer.Lines = append(answer.Lines, line)
	}
	if n := len(answer.Lines); n == 0 || !terminal(answer.Lines[n-1].Type) {
		return answer, fmt.Errorf("no terminal line")
	}
	return answer, nil
}

func terminal(kind string) bool { return kind == "output" || kind == "error" || kind == "absent" }

// ReadFile returns a file as a string.
func ReadFile(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
