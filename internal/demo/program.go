package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// executorVariable names the environment variable that contains the name of the executor. The manifest of the demo's
// tool passes it on.
const executorVariable = "DEMO_EXECUTOR"

// Program is the demo's own tool, demo.sleeper. It implements the process protocol directly, as a tool in any language
// would: it reads one JSON object and writes lines of JSON.
type Program struct {
	Self    string   // path of the program, to start a child of it
	Environ []string // contains executorVariable
	Stdin   io.Reader
	Stdout  io.Writer
}

// Child is the argument with which the program runs as its own child, which only waits.
const Child = "child"

// started is the progress report with the executor and the processes of the run.
type started struct {
	Executor string `json:"executor"`
	PIDs     []int  `json:"pids"`
}

// napped is the output of function nap. Run is different in every run.
type napped struct {
	Executor string `json:"executor"`
	Run      string `json:"run"`
}

// Run handles one call.
func (p Program) Run(ctx context.Context) error {
	var call struct {
		Fn    string `json:"fn"`
		Input struct {
			MS int64 `json:"ms"`
		} `json:"input"`
	}
	if err := json.UnmarshalRead(p.Stdin, &call); err != nil {
		return fmt.Errorf("read the call: %w", err)
	}
	if call.Fn == "orphan" {
		return p.orphan()
	}
	if err := p.say("progress", "data", started{p.executor(), []int{os.Getpid()}}); err != nil {
		return err
	}
	if !timer.Sleep(ctx, time.Duration(call.Input.MS)*time.Millisecond) {
		return errors.New("woken up")
	}
	return p.say("output", "output", napped{p.executor(), rand.Text()})
}

func (p Program) executor() string {
	for _, entry := range p.Environ {
		if name, value, _ := strings.Cut(entry, "="); name == executorVariable {
			return value
		}
	}
	return "?"
}

// orphan behaves as badly as possible: it starts a child in a new session, does not end, and ignores all requests to
// end.
func (p Program) orphan() error {
	child, err := startInOwnSession(p.Self, "demo", "tool", Child)
	if err != nil {
		return err
	}
	if err := p.say("progress", "data", started{p.executor(), []int{os.Getpid(), child}}); err != nil {
		return err
	}
	timer.Sleep(context.Background(), time.Hour) // ignores requests to end on purpose
	return nil
}

func (p Program) say(kind, name string, v any) error {
	line, err := json.Marshal(map[string]any{"type": kind, name: v})
	if err != nil {
		return err
	}
	_, err = p.Stdout.Write(append(line, '\n'))
	return err
}
