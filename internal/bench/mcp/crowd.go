package mcp

import (
	"context"
	"errors"
	"strconv"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/internal/bench/process"
	"github.com/seed-018f16cc/toolbus/internal/bench/usage"
)

// crowd makes many calls that wait at the same time. Dispatcher, executor and gateway are processes.
func (o Options) crowd(ctx context.Context, r *Report) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	s := &server{held: make(chan struct{}, o.AtOnce), release: make(chan struct{})}
	upstream, stop, err := serve(s.handler())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := manifests(o.Dir, upstream); err != nil {
		return err
	}
	parts := map[string]*process.Process{}
	for _, part := range []struct {
		name  string
		start func(name string, args ...string) (*process.Process, error)
		args  []string
	}{
		{"dispatcher", o.Node, []string{"bench", "node", "dispatcher", "--tools", o.Dir}},
		{"executor", o.Start, []string{"executor", "--tools", o.Dir, "--slots", strconv.Itoa(slots(o.AtOnce))}},
		{"door", o.Start, []string{"gateway", "mcp", "--listen", "127.0.0.1:0", "--task-after", "-1s"}},
	} {
		p, err := part.start(part.name, append(part.args, "--server", o.URL)...)
		if err != nil {
			return err
		}
		defer p.Stop()
		parts[part.name] = p
	}
	session, err := connect(ctx, parts["door"].Said)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	return o.hold(ctx, session, s, func() error { return r.resident(parts) })
}

// slots returns the number of slots with which an executor runs calls calls of one actor at a time: an actor with many
// open calls gets at most seven eighths of them.
func slots(calls int) int { return (calls*8 + 6) / 7 }

// hold makes the calls, calls look when all of them wait, and then lets them return.
func (o Options) hold(ctx context.Context, session *sdk.ClientSession, s *server, look func() error) error {
	calls, ctx := errgroup.WithContext(ctx)
	for n := range o.AtOnce {
		calls.Go(func() error { return on(session, "mcp.hold")(ctx, "held."+strconv.Itoa(n)) })
	}
	for range o.AtOnce {
		select {
		case <-s.held:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), calls.Wait())
		}
	}
	err := look()
	close(s.release)
	return errors.Join(err, calls.Wait())
}

func (r *Report) resident(parts map[string]*process.Process) error {
	r.Resident = map[string]float64{}
	for name, p := range parts {
		mb, err := usage.ResidentMB(p.PID)
		if err != nil {
			return err
		}
		r.Resident[name] = mb
	}
	return nil
}
