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

// executorVariable tells the demo's tool which executor runs it; its manifest lets it through.
const executorVariable = "DEMO_EXECUTOR"

// Program is the program of the demo's own tool, demo.sleeper. It speaks the process protocol by
// hand, as a tool in any language would: one JSON object in, lines of JSON out.
type Program struct {
	Self    string   // the program's own file, to start a child of it
	Environ []string // holds executorVariable
	Stdin   io.Reader
	Stdout  io.Writer
}

// Child is the argument with which the program is its own child: a process that only waits.
const Child = "child"

// started is the progress that says who runs the tool.
type started struct {
	Executor string `json:"executor"`
	PIDs     []int  `json:"pids"`
}

// napped is the output of a nap. Run is different in every execution.
type napped struct {
	Executor string `json:"executor"`
	Run      string `json:"run"`
}

// Run serves one call.
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

// orphan behaves as badly as a tool can: it leaves a child in a session of its own, and neither
// ends nor listens to anybody who wants it to.
func (p Program) orphan() error {
	child, err := startInOwnSession(p.Self, "demo", "tool", Child)
	if err != nil {
		return err
	}
	if err := p.say("progress", "data", started{p.executor(), []int{os.Getpid(), child}}); err != nil {
		return err
	}
	timer.Sleep(context.Background(), time.Hour) // whoever asked it to end: no
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
