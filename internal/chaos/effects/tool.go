package effects

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Input determines what a run does.
type Input struct {
	N      int64 `json:"n"`               // number that distinguishes inputs
	WorkMS int64 `json:"work_ms"`         // time until the effect, in milliseconds
	TailMS int64 `json:"tail_ms"`         // time after the effect, in milliseconds
	Chunks int   `json:"chunks,omitzero"` // number of chunks, emitted before the effect
	Fail   Fault `json:"fail,omitzero"`
	Times  int   `json:"times,omitzero"` // number of attempts that fail
	// Pad makes the input large. Out is the number of bytes to add to the output.
	Pad string `json:"pad,omitzero"`
	Out int    `json:"out,omitzero"`
}

// Fault is the way in which a run fails.
type Fault string

// Ways to fail.
const (
	Flaky   Fault = "flaky"   // reports a retryable failure without effect
	Refused Fault = "refused" // reports a final failure without effect
	Late    Fault = "late"    // reports a failure after its effect
	Crash   Fault = "crash"   // kills itself after its effect
	Garbage Fault = "garbage" // prints a line that is not JSON, after its effect
	Silent  Fault = "silent"  // ends without output, before its effect
	Poison  Fault = "poison"  // kills its executor
	Moody   Fault = "moody"   // as Flaky, but only in the first run of a key, whatever its attempt
)

// Output is the output of a run. Run is its [RunName].
type Output struct {
	N   int64  `json:"n"`
	Run string `json:"run"`
	Pad string `json:"pad,omitzero"`
}

// request holds those members of the tool protocol that the tools use.
type request struct {
	Op      string `json:"op"`
	CallID  string `json:"call_id"`
	Tool    string `json:"tool_id"`
	Input   Input  `json:"input"`
	Key     string `json:"idempotency_key"`
	Attempt int    `json:"attempt"`
	Fence   uint64 `json:"fence"`
}

// Run implements a tool: it reads one request and answers it by the process protocol. path is the ledger.
func Run(stdin io.Reader, stdout io.Writer, path string) error {
	return RunUntil(nil, stdin, stdout, path)
}

// errStopped is the error of a run that was stopped before its effect.
var errStopped = errors.New("the run was stopped")

// RunUntil is Run for a tool that is stopped by done instead of a signal.
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

// RunName returns the name of a run: its fence and its process id.
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

// mood returns Flaky for the first run of a key, otherwise no fault.
func (t *run) mood() (Fault, error) {
	_, before, err := find(t.path, Start, t.Tool, t.Key)
	if before {
		return "", err
	}
	return Flaky, err
}

// work takes WorkMS and emits the chunks at equal intervals.
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

// PoisonSocket returns the path of the Unix socket at which chaos takes the process id of an executor, and kills it. A
// run cannot signal its executor itself.
func PoisonSocket(ledger string) string { return ledger + ".poison" }

// poison has the executor killed, which is the parent of this tool's supervisor. The supervisor then kills this
// process, so poison waits.
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
	conn, err := net.Dial("unix", PoisonSocket(t.path))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = fmt.Fprintln(conn, pid)
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

// wait waits for d. It returns false if the run is stopped.
func (t *run) wait(d time.Duration) bool {
	select {
	case <-t.done:
		return false
	case <-time.After(d):
		return true
	}
}
