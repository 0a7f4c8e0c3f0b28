package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// topFlags are the flags of `top`.
type topFlags struct {
	interval, window time.Duration
	once             bool
}

func topCmd(g *global) *cobra.Command {
	f := &topFlags{}
	cmd := &cobra.Command{
		Use: "top", Short: "Show the load of tools and executors, live", GroupID: "operate", Args: cli.NoArgs,
		Long: `Shows for each tool of the tenant the calls a second, the 50th and 95th percentile of the time from request to
outcome, errors, calls in flight and calls in the queue, and for each executor how many calls run and may run. On a
terminal it redraws each second, until Ctrl-C. Otherwise it prints a table each second, and with --json a line.

Calls a second, times and errors are of the calls that have ended in the window, from the audit record, as in "stats".
The window ends one second ago, and with --once now. Calls that began over a minute before top count without a time.
Calls in flight and in the queue are those of "calls list --open": the first 256, with a line if more are open.
Executors are those of "executors list". It needs the credentials of an operator, and shows their tenant or that of
--tenant. It goes on while no dispatcher answers, and says so.

Exit codes: 0 ended by Ctrl-C, or shown once; 1 no server, or with --once the record is behind; 11 the bus refused.`,
		Example: "  toolbus top\n  toolbus top --once --window 1m --tenant acme --credentials operator.token\n" +
			"  toolbus top --json --interval 10s --window 10s",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return f.run(cmd.Context(), g)
		},
	}
	fl := cmd.Flags()
	fl.DurationVar(&f.interval, "interval", time.Second, "show each `DURATION`")
	fl.DurationVar(&f.window, "window", 10*time.Second, "count the calls that have ended in this last `DURATION`")
	fl.BoolVar(&f.once, "once", false, "show once")
	for _, flag := range []string{"interval", "window"} {
		completeFlag(cmd, flag, cobra.FixedCompletions([]string{"1s", "10s", "1m"}, inOrder))
	}
	return cmd
}

// shortestInterval is the shortest --interval and --window.
const shortestInterval = 100 * time.Millisecond

func (f *topFlags) check() error {
	switch {
	case f.interval < shortestInterval:
		return usagef("--interval is %v: use %v or more", f.interval, shortestInterval)
	case f.window < shortestInterval:
		return usagef("--window is %v: use %v or more", f.window, shortestInterval)
	}
	return nil
}

func (f *topFlags) run(ctx context.Context, g *global) error {
	return g.reading(ctx, func(from reader.Source) error {
		return g.operating(ctx, func(c *admin.Client) error {
			t := &top{topFlags: f, from: from, bus: c, tenant: g.tenant, to: newScreen(g)}
			if g.given("actor") {
				t.actor = g.actor
			}
			err := t.run(ctx, g)
			if ctx.Err() != nil && !f.once {
				return nil
			}
			return err
		})
	})
}

// topTool are the numbers of a tool.
type topTool struct {
	toolStats
	PerSecond float64 `json:"calls_per_s"`
	InFlight  int     `json:"in_flight"`
	Queue     int     `json:"queue"`
}

// topFrame holds the numbers of a moment.
type topFrame struct {
	At        time.Time               `json:"at,omitzero"` // end of the window, in bus time
	WindowMS  int64                   `json:"window_ms"`
	Tenant    string                  `json:"tenant"`
	Tools     []*topTool              `json:"tools"`
	Executors []envelope.ExecutorInfo `json:"executors"`
	OpenMore  bool                    `json:"open_more,omitzero"`     // more calls are open than were looked at
	Behind    bool                    `json:"record_behind,omitzero"` // the newest calls may be missing
	Problem   string                  `json:"problem,omitzero"`       // why the other fields are empty
}

// top collects the numbers.
type top struct {
	*topFlags
	from   reader.Source
	bus    *admin.Client
	tenant string
	actor  string // "" is all
	to     *screen

	mu    sync.Mutex
	ended []endedCall // in the window, and later ones
}

// run shows the first frame, and with its endings those that follow.
func (t *top) run(ctx context.Context, g *global) error {
	f, err := t.look(ctx)
	if err != nil {
		return err
	}
	e, now, err := endedSince(ctx, g, t.from, t.window.String())
	if err != nil {
		return err
	}
	e.tenant, e.lead = t.tenant, topLead
	if !t.once {
		e.until = now
	}
	err = e.past(ctx, t.add)
	f.Behind = errors.Is(err, errBehind)
	if err != nil && !f.Behind {
		return err
	}
	t.count(f, now, t.once)
	if t.once {
		return cmp.Or(t.to.print(f), err)
	}
	defer t.to.open()()
	if err := t.to.show(f); err != nil {
		return err
	}
	return t.follow(ctx, e)
}

// topLead is the time before the first window from which requests are read. Calls that had begun earlier count without
// a time: to read an hour of the record of a busy bus would take minutes.
const topLead = time.Minute

// settling is how long before a frame its window ends: until then the record has the calls.
const settling = time.Second

// follow shows a frame each interval until ctx ends.
func (t *top) follow(ctx context.Context, e *endings) error {
	var following sync.WaitGroup
	defer following.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	following.Go(func() { cancel(e.next(ctx, t.add)) })
	tick := time.NewTicker(t.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		f, err := t.frame(ctx)
		no, ok := errors.AsType[envelope.Fault](err)
		switch {
		case ctx.Err() != nil:
			continue
		case ok && no.Fault().Code.Class() == envelope.ClassAuth:
			return err
		case err != nil:
			f = t.empty()
			f.Problem = err.Error()
		}
		if err := t.to.show(f); err != nil {
			return err
		}
	}
}

// frame returns the numbers of now.
func (t *top) frame(ctx context.Context) (*topFrame, error) {
	f, err := t.look(ctx)
	if err != nil {
		return nil, err
	}
	err = upToDate(ctx, t.from)
	if f.Behind = errors.Is(err, errBehind); err != nil && !f.Behind {
		return nil, err
	}
	now, err := t.from.Now(ctx)
	if err != nil {
		return nil, err
	}
	t.count(f, now.Add(-settling), false)
	return f, nil
}

// add takes a call that has ended.
func (t *top) add(c endedCall) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = append(t.ended, c)
	return nil
}

// count adds the numbers of the calls that have ended in the window before a time, or until now.
func (t *top) count(f *topFrame, end time.Time, untilNow bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.At = end
	begin := end.Add(-t.window)
	t.ended = slices.DeleteFunc(t.ended, func(c endedCall) bool { return c.Ended.Before(begin) })
	tools := map[string]*topTool{}
	for _, one := range f.Tools {
		tools[one.Tool] = one
	}
	for _, c := range t.ended {
		if untilNow || c.Ended.Before(end) {
			toolOf(tools, c.Tool).add(c)
		}
	}
	for _, one := range tools {
		one.rank()
		one.PerSecond = float64(one.Calls) / t.window.Seconds()
	}
	f.Tools = slices.SortedFunc(maps.Values(tools), func(x, y *topTool) int {
		return cmp.Or(cmp.Compare(y.Calls, x.Calls), cmp.Compare(y.InFlight+y.Queue, x.InFlight+x.Queue),
			cmp.Compare(x.Tool, y.Tool))
	})
}

// toolOf returns the numbers of a tool, which it adds if they are not there.
func toolOf(tools map[string]*topTool, name string) *topTool {
	if tools[name] == nil {
		tools[name] = &topTool{toolStats: *newToolStats(name)}
	}
	return tools[name]
}

// maxLooked is the largest number of open calls that a frame counts: a dispatcher reads the log of each.
const maxLooked = 256

func (t *top) empty() *topFrame {
	return &topFrame{
		WindowMS: t.window.Milliseconds(), Tenant: t.tenant, Tools: []*topTool{}, Executors: []envelope.ExecutorInfo{},
	}
}

// look returns a frame with the executors and the open calls of now.
func (t *top) look(ctx context.Context) (*topFrame, error) {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	f := t.empty()
	for e, err := range t.bus.Executors(ctx) {
		if err != nil {
			return nil, err
		}
		f.Executors = append(f.Executors, e)
	}
	tools, n := map[string]*topTool{}, 0
	for c, err := range t.bus.OpenCalls(ctx, t.tenant) {
		if err != nil {
			return nil, err
		}
		if n++; n > maxLooked {
			f.OpenMore = true
			break
		}
		switch {
		case t.actor != "" && c.Actor != t.actor:
		case c.State == envelope.OpenRunning:
			toolOf(tools, c.Tool).InFlight++
		default:
			toolOf(tools, c.Tool).Queue++
		}
	}
	f.Tools = slices.Collect(maps.Values(tools))
	return f, nil
}
