package native

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

var (
	errUnfinished = errors.New("not returned yet")
	errLeaked     = errors.New("the tool ignored the end of its context")
	errShut       = errors.New("the run is over")
	errNoRun      = errors.New("the context belongs to no run, so that no watchdog could abandon it")
)

// runLimits is the sink that a function gets. It enforces the output limit, and refuses chunks once the run is over. It
// emits under the context of the run, not the one that the function passes, so that every Emit ends with the run.
type runLimits struct {
	running context.Context // context of the run; may have a shorter deadline
	run     *timer.Run
	sink    tool.Sink
	limit   int64
	of      *Adapter
	m       *tool.Manifest

	mu   sync.Mutex // held during Emit, so that no chunk is emitted after shut has returned
	used int64
	err  error // why further chunks are refused; nil while the run is open
}

// Emit implements tool.Sink.
func (g *runLimits) Emit(ctx context.Context, kind envelope.ChunkKind, data jsontext.Value) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.err != nil:
		return g.err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if bad := ijson.Check(data); len(bad) > 0 {
		says := fmt.Sprintf("a chunk that cannot travel, at %q: %s", bad[0].Pointer, bad[0].Message)
		return g.refuse(&tool.ProtocolError{Reason: says})
	}
	if g.used += int64(len(data)); g.used > g.limit {
		return g.refuse(&tool.LimitError{Limit: g.limit})
	}
	err := g.sink.Emit(g.running, kind, data)
	if err != nil && g.running.Err() == nil {
		return g.refuse(&tool.SinkError{Err: err})
	}
	return err
}

// refuse refuses all further chunks and stops the run, so that the context of a function that continues ends.
func (g *runLimits) refuse(err error) error {
	g.err = err
	g.run.Stop()
	return err
}

// shut refuses all further chunks.
func (g *runLimits) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = errShut
	}
}

// judge returns the result of the run. Call it before shut.
func (g *runLimits) judge(out answer) (answer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var said *tool.Error
	var crash *tool.CrashError
	switch {
	case g.err != nil:
		return answer{}, g.err
	case out.err == nil:
		return g.checked(out)
	case errors.As(out.err, &crash):
		return answer{}, crash
	case errors.As(out.err, &said) && said.Check() != nil:
		return answer{}, &tool.ProtocolError{Reason: said.Check().Error()}
	case g.running.Err() != nil && said != nil:
		return answer{}, tool.Stopped(g.running, said.Effect, "")
	case g.running.Err() != nil:
		return answer{}, tool.Stopped(g.running, "", "")
	case said != nil:
		return answer{}, said
	}
	return answer{}, &tool.CrashError{How: "the function returned an error", Message: out.err.Error()}
}

// plain returns err as a *tool.Error or *tool.CrashError, or as a plain error with its text. The methods of other error
// types are code of the tool and may panic. So plain is called where a panic counts as a crash of the tool.
func plain(err error) error {
	var said *tool.Error
	var crash *tool.CrashError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &crash) && crash != nil:
		return crash
	case errors.As(err, &said) && said != nil:
		return said
	}
	return errors.New(err.Error())
}

func (g *runLimits) checked(out answer) (answer, error) {
	if !out.found {
		return answer{}, nil
	}
	if err := out.result.Check(); err != nil {
		return answer{}, &tool.ProtocolError{Reason: err.Error()}
	}
	if g.used+int64(len(out.result.Output)) > g.limit {
		return answer{}, &tool.LimitError{Limit: g.limit}
	}
	return out, nil
}

// crashed returns the error for a panic. If panicked is nil, the function ended its goroutine.
func crashed(panicked any) error {
	if panicked == nil {
		return &tool.CrashError{How: "the function ended its goroutine"}
	}
	how := fmt.Sprintf("panic: %v", panicked)
	return &tool.CrashError{How: how, Stderr: how + "\n" + stack()}
}

// stack lists the innermost functions of a panic. It names files without their folders, which would disclose paths of
// the build machine.
func stack() string {
	callers := make([]uintptr, 32)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	var b strings.Builder
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") {
			fmt.Fprintf(&b, "%s (%s:%d)\n", frame.Function, filepath.Base(frame.File), frame.Line)
		}
		if !more {
			return b.String()
		}
	}
}
