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

// Tool is the set of functions of a program, by name.
type Tool map[string]Function

// Function is one function of a tool. Execute is required.
type Function struct {
	Execute Handler
	// Lookup returns the committed result, or ErrAbsent. nil means that the function has no lookup.
	Lookup Handler
	// DryRun states that Execute obeys Call.DryRun. If it is false, Run refuses dry runs, with effect none.
	DryRun bool
}

// Handler runs one call. It must return when ctx ends. The package comment describes its errors.
type Handler func(ctx context.Context, call *Call, out *Stream) (Result, error)

// Typed returns a Handler that decodes the input and calls run. It refuses an input with members that In does not have.
// If the input cannot be decoded, the call ends with effect none.
func Typed[In any](run func(ctx context.Context, call *Call, in In, out *Stream) (Result, error)) Handler {
	return func(ctx context.Context, call *Call, out *Stream) (Result, error) {
		var in In
		if err := json.Unmarshal(call.Input, &in, json.RejectUnknownMembers(true)); err != nil {
			return Result{}, NoEffect(protocol.Undecoded, "decode the input: "+err.Error())
		}
		return run(ctx, call, in, out)
	}
}

// Run reads one call from stdin and serves it. It returns nil if it has written a terminal line. An error is a fault:
// the program must then exit with a code other than 0.
func Run(ctx context.Context, tool Tool, stdin io.Reader, stdout io.Writer) error {
	call, err := readCall(stdin)
	if err != nil {
		return err
	}
	handle, err := tool.handler(call)
	if err != nil {
		return NewStream(stdout).end(call, Result{}, err)
	}
	within, cancel := withDeadline(ctx, call)
	defer cancel()
	out := NewStream(stdout)
	res, err := handle(within, call, out)
	if err = out.end(call, res, err); err != nil && errors.Is(within.Err(), context.DeadlineExceeded) {
		awaitEnd(ctx, call)
	}
	return err
}

// awaitEnd waits for the signal of the executor at the deadline of the call. A program that exited before would have
// failed, and the call would not have ended because its time was over.
func awaitEnd(ctx context.Context, call *Call) {
	late := time.NewTimer(time.Until(time.UnixMilli(call.DeadlineUnixMS)) + answerTime)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-late.C:
	}
}

// Main serves one call over stdin and stdout. It returns after success. Otherwise it writes "error: " and the error as
// the last line to stderr, which is the message of the outcome, and exits with 1. It is for package main.
func Main(tool Tool) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := Run(ctx, tool, os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, protocol.FaultLine(err))
		os.Exit(1)
	}
}

func (t Tool) handler(call *Call) (Handler, error) {
	fn, ok := t[call.Fn]
	switch {
	case !ok:
		return nil, unserved("no function %q", call.Fn)
	case call.Op == OpLookup && fn.Lookup != nil:
		return fn.Lookup, nil
	case call.Op == OpLookup:
		return nil, unserved("no lookup of function %q", call.Fn)
	case call.Op != OpExecute:
		return nil, unserved("no operation %q", call.Op)
	case call.DryRun && !fn.DryRun:
		return nil, unserved("no dry run of function %q", call.Fn)
	}
	return fn.Execute, nil
}

// unserved returns the error of a call that the program does not serve.
func unserved(format string, args ...any) error {
	return NoEffect(protocol.Unserved, "the program has "+fmt.Sprintf(format, args...))
}

// answerTime is the longest time that withDeadline reserves for writing the answer.
const answerTime = 200 * time.Millisecond

// withDeadline returns a context that ends before the deadline of the call, by a tenth of the remaining time but at
// most answerTime. At the deadline itself the executor kills the process.
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
