package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/tool/process/protocol"
)

// Tool is a program: its functions by name.
type Tool map[string]Function

// Function is one function of a tool.
type Function struct {
	Execute Handler
	// Lookup, if there is one, returns the committed result or ErrAbsent.
	Lookup Handler
	// DryRun says that Execute obeys Call.DryRun. A dry run of any other function is refused,
	// because it would not be dry.
	DryRun bool
}

// Handler runs one call. It returns when ctx ends. See the package comment for what its error means.
type Handler func(ctx context.Context, call *Call, out *Stream) (Result, error)

// Typed makes a Handler of a function that takes its input decoded. Members of the input that In
// does not have are refused.
func Typed[In any](run func(ctx context.Context, call *Call, in In, out *Stream) (Result, error)) Handler {
	return func(ctx context.Context, call *Call, out *Stream) (Result, error) {
		var in In
		if err := json.Unmarshal(call.Input, &in, json.RejectUnknownMembers(true)); err != nil {
			return Result{}, fmt.Errorf("decode input: %w", err)
		}
		return run(ctx, call, in, out)
	}
}

// Run serves the one call of stdin. It returns nil once a terminal line is written; any other
// error is a fault that the executor has to learn from the exit code.
func Run(ctx context.Context, tool Tool, stdin io.Reader, stdout io.Writer) error {
	call, err := readCall(stdin)
	if err != nil {
		return err
	}
	handle, err := tool.handler(call)
	if err != nil {
		return err
	}
	ctx, cancel := withDeadline(ctx, call)
	defer cancel()
	out := NewStream(stdout)
	res, err := handle(ctx, call, out)
	return out.end(call, res, err)
}

// Main serves the call of this process and exits. It is for package main only.
func Main(tool Tool) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := Run(ctx, tool, os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (t Tool) handler(call *Call) (Handler, error) {
	fn, ok := t[call.Fn]
	switch {
	case !ok:
		return nil, fmt.Errorf("no function %q", call.Fn)
	case call.Op == OpLookup && fn.Lookup != nil:
		return fn.Lookup, nil
	case call.Op == OpLookup:
		return nil, fmt.Errorf("function %q has no lookup", call.Fn)
	case call.Op != OpExecute:
		return nil, fmt.Errorf("no operation %q", call.Op)
	case call.DryRun && !fn.DryRun:
		return nil, fmt.Errorf("function %q has no dry run", call.Fn)
	}
	return fn.Execute, nil
}

// answerTime is what withDeadline holds back, at most, for writing the answer.
const answerTime = 200 * time.Millisecond

// withDeadline ends ctx a little before the call's deadline: a tenth of what is left, at most
// answerTime. After the deadline itself the executor kills the process and nobody reads the answer.
func withDeadline(ctx context.Context, call *Call) (context.Context, context.CancelFunc) {
	if call.DeadlineUnixMS == 0 {
		return context.WithCancel(ctx)
	}
	deadline := time.UnixMilli(call.DeadlineUnixMS)
	reserve := max(0, min(time.Until(deadline)/10, answerTime))
	return context.WithDeadline(ctx, deadline.Add(-reserve))
}

// end writes the terminal line.
func (s *Stream) end(call *Call, res Result, err error) error {
	var failure *Error
	switch {
	case err == nil:
		return s.write(newOutputLine(res), MaxLine)
	case errors.As(err, &failure):
		return s.write(newErrorLine(failure), MaxLine)
	case call.Op == OpLookup && errors.Is(err, ErrAbsent):
		return s.write(protocol.Absent{Type: protocol.LineAbsent}, MaxLine)
	}
	return err
}
