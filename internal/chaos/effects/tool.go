package effects

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Input says what a run does.
type Input struct {
	N      int64 `json:"n"`               // makes inputs differ
	WorkMS int64 `json:"work_ms"`         // how long it takes until its effect
	TailMS int64 `json:"tail_ms"`         // and after it
	Chunks int   `json:"chunks,omitzero"` // emitted while it works
	Fail   Fault `json:"fail,omitzero"`
	Times  int   `json:"times,omitzero"` // how many attempts fail
	// Pad makes the input large; Out is how many bytes make the output so.
	Pad string `json:"pad,omitzero"`
	Out int    `json:"out,omitzero"`
}

// Fault is how a run fails.
type Fault string

// The faults.
const (
	Flaky   Fault = "flaky"   // says that nothing happened and that it may be tried again
	Refused Fault = "refused" // says that nothing happened and never will
	Late    Fault = "late"    // says after its effect that it failed
	Crash   Fault = "crash"   // is killed after its effect
	Garbage Fault = "garbage" // says something that is no line of the protocol, after its effect
	Silent  Fault = "silent"  // ends without a word before its effect
	Poison  Fault = "poison"  // kills its executor
	Moody   Fault = "moody"   // as Flaky, but only the first run of a key, whatever its attempt
)

// Output is what a run returns: which one it was.
type Output struct {
	N   int64  `json:"n"`
	Run string `json:"run"`
	Pad string `json:"pad,omitzero"`
}

// request is the part of the tool protocol that these tools read.
type request struct {
	Op      string `json:"op"`
	CallID  string `json:"call_id"`
	Tool    string `json:"tool_id"`
	Input   Input  `json:"input"`
	Key     string `json:"idempotency_key"`
	Attempt int    `json:"attempt"`
	Fence   uint64 `json:"fence"`
}

// Run is a tool: it reads one request and answers it by the process protocol.
func Run(stdin io.Reader, stdout io.Writer, path string) error {
	return RunUntil(nil, stdin, stdout, path)
}

// errStopped is that of a run that was told to end before its effect.
var errStopped = errors.New("the run was stopped")

// RunUntil is Run of a tool that is told to end by done, and not by a signal.
func RunUntil(done <-chan struct{}, stdin io.Reader, stdout io.Writer, path string) error {
	raw, err := io.ReadAll(stdin)
	if err != nil {
		return err
	}
	var r request
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	t := &run{request: r, path: path, out: stdout, pid: os.Getpid(), done: done}
	if r.Op == "lookup" {
		return t.lookup()
	}
	return t.execute()
}

type run struct {
	request
	path string
	out  io.Writer
	pid  int
	done <-chan struct{}
}

func (t *run) note(op Op) error {
	return Append(t.path, Line{
		Op: op, Time: time.Now().UnixNano(), Tool: t.Tool, Key: t.Key, CallID: t.CallID, Attempt: t.Attempt, Fence: t.Fence,
		PID: t.pid,
	})
}

// RunName is the name of a run: its fence and its process.
func RunName(fence uint64, pid int) string { return fmt.Sprintf("%d/%d", fence, pid) }

func (t *run) lookup() error {
	l, ok, err := Find(t.path, t.Tool, t.Key)
	if err != nil {
		return err
	}
	if !ok {
		return t.say(map[string]any{"type": "absent"})
	}
	return t.output(l.Fence, l.PID)
}

func (t *run) execute() error {
	fault := t.Input.Fail
	if t.Attempt > t.Input.Times {
		fault = ""
	}
	if fault == Moody {
		var err error
		if fault, err = t.mood(); err != nil {
			return err
		}
	}
	if err := t.note(Start); err != nil {
		return err
	}
	if err := t.work(); err != nil {
		return err
	}
	switch fault {
	case Flaky, Refused:
		return t.failure(string(fault), "none")
	case Silent:
		return nil
	case Poison:
		return t.poison()
	}
	if err := t.note(Commit); err != nil {
		return err
	}
	switch fault {
	case Crash:
		return t.crash()
	case Garbage:
		_, err := fmt.Fprintln(t.out, "not JSON")
		return err
	case Late:
		return t.failure(string(fault), "applied")
	}
	t.wait(time.Duration(t.Input.TailMS) * time.Millisecond)
	return t.output(t.Fence, t.pid)
}

// mood is how a moody run ends: the first one fails.
func (t *run) mood() (Fault, error) {
	_, before, err := find(t.path, Start, t.Tool, t.Key)
	if before {
		return "", err
	}
	return Flaky, err
}

// work takes its time, and emits its chunks evenly over it.
func (t *run) work() error {
	total := time.Duration(t.Input.WorkMS) * time.Millisecond
	for i := range t.Input.Chunks {
		if !t.wait(total / time.Duration(t.Input.Chunks)) {
			return errStopped
		}
		if err := t.say(map[string]any{"type": "chunk", "data": Chunk{I: i, Run: RunName(t.Fence, t.pid)}}); err != nil {
			return err
		}
	}
	if t.Input.Chunks == 0 && !t.wait(total) {
		return errStopped
	}
	return nil
}

// Chunk is the data of one chunk.
type Chunk struct {
	I   int    `json:"i"`
	Run string `json:"run"`
}

func (t *run) crash() error {
	self, err := os.FindProcess(t.pid)
	if err != nil {
		return err
	}
	return self.Kill()
}

// poison kills the executor, which is the parent of this tool's supervisor. Nothing of the run is
// left then, so it waits for its own end.
func (t *run) poison() error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", os.Getppid()))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(status), "\nPPid:")
	var pid int
	if _, err := fmt.Sscan(rest, &pid); err != nil {
		return err
	}
	executor, err := os.FindProcess(pid)
	if err == nil {
		err = executor.Kill()
	}
	t.wait(time.Minute)
	return err
}

func (t *run) output(fence uint64, pid int) error {
	return t.say(map[string]any{"type": "output", "output": Output{
		N: t.Input.N, Run: RunName(fence, pid), Pad: strings.Repeat("x", t.Input.Out),
	}})
}

func (t *run) failure(code, effect string) error {
	return t.say(map[string]any{"type": "error", "error": map[string]any{"code": code, "effect": effect}})
}

func (t *run) say(line any) error {
	raw, err := json.Marshal(line, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = t.out.Write(append(raw, '\n'))
	return err
}

// wait is the work of a tool that does none. It reports whether it was not stopped.
func (t *run) wait(d time.Duration) bool {
	select {
	case <-t.done:
		return false
	case <-time.After(d):
		return true
	}
}
