package toolbus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// ToolMain is the main function of a program that executors run by its manifest. The set must hold the functions of
// exactly one tool. ToolMain reads one call from standard input, runs it, writes the result to standard output, and
// exits. If the program is started with the arguments --manifest DIR, it writes the manifest and the schemas of the
// tool into a subfolder of DIR instead. Put the program itself into the same subfolder.
//
// Such a program makes its schemas at each start, which takes a few milliseconds. A program that uses package program
// and a manifest written by hand does not.
func ToolMain(tools *Toolset) {
	one, err := tools.only()
	switch {
	case err != nil:
	case len(os.Args) == 3 && os.Args[1] == "--manifest":
		err = one.install(os.Args[2], filepath.Base(os.Args[0]))
	case len(os.Args) > 1:
		err = errors.New("usage: without arguments it serves the call of standard input; --manifest DIR writes a manifest")
	default:
		program.Main(one.program())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// only returns the tool of the set. It returns an error unless the set has exactly one.
func (t *Toolset) only() (*typed, error) {
	if t.bad != nil {
		return nil, t.bad
	}
	ids := slices.Sorted(maps.Keys(t.typed))
	if len(ids) != 1 {
		return nil, fmt.Errorf("a program is one tool, and not %d: %q", len(ids), ids)
	}
	return t.typed[ids[0]], nil
}

// install writes the manifest and the schemas of the tool into a subfolder of dir.
func (t *typed) install(dir, name string) error {
	files, err := t.files([]string{"./" + name})
	if err != nil {
		return err
	}
	folder := filepath.Join(dir, subjects.Token(t.about.ID))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for file, data := range files {
		if err := os.WriteFile(filepath.Join(folder, file), data, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%s is a tool once the package of this program is built into it: go build -o %s PACKAGE\n", folder,
		filepath.Join(folder, name))
	return nil
}

// program returns the tool in the form that package program runs.
func (t *typed) program() program.Tool {
	functions := program.Tool{}
	for _, p := range t.parts {
		f := program.Function{Execute: p.whole().serve, DryRun: t.about.DryRun}
		if p.lookup != nil {
			f.Lookup = p.lookup.serve
		}
		functions[p.fn()] = f
	}
	return functions
}

// whole returns the function with its check: a program has one start for both.
func (p part) whole() handler {
	if p.validate == nil {
		return p.run
	}
	return func(ctx context.Context, run *Run) (any, error) {
		if _, err := p.validate.output(ctx, run); err != nil {
			if refused, ok := errors.AsType[*tool.Error](err); ok {
				refused.Effect = EffectNone
			}
			return nil, err
		}
		return p.run(ctx, run)
	}
}

// serve implements program.Handler.
func (h handler) serve(ctx context.Context, call *program.Call, out *program.Stream) (program.Result, error) {
	inv := tool.Invocation{
		CallID: call.CallID, ToolID: call.ToolID, ToolVersion: call.ToolVersion, Digest: call.Digest,
		Fn: call.Fn, Input: call.Input, Context: call.Context, Traceparent: call.Traceparent,
		IdempotencyKey: call.IdempotencyKey, Attempt: call.Attempt, Fence: call.Fence, DryRun: call.DryRun,
	}
	if call.DeadlineUnixMS > 0 {
		inv.Deadline = time.UnixMilli(call.DeadlineUnixMS)
	}
	run := newRun(inv, func(kind envelope.ChunkKind, data jsontext.Value) error {
		switch kind {
		case envelope.ChunkProgress:
			return out.Progress(data)
		case envelope.ChunkLog:
			return out.Log(data)
		}
		return out.Chunk(data)
	})
	output, err := h.output(ctx, run)
	if said, ok := errors.AsType[*tool.Error](err); ok {
		failed := &program.Error{
			Code: said.Code, Message: said.Message, Effect: program.Effect(said.Effect), RetryAfter: said.RetryAfter,
		}
		if said.Details != nil {
			if err := json.Unmarshal(said.Details, &failed.Details); err != nil {
				return program.Result{}, fmt.Errorf("the details of %s are no object: %w", said.Code, err)
			}
		}
		err = failed
	}
	return program.Result{Output: output, SideEffects: run.effects, Warnings: run.warnings}, err
}
