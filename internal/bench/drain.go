package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/bench/process"
	"github.com/seed-018f16cc/toolbus/internal/bench/usage"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// calls returns the stream of the call log, which has one partition here.
func calls() string { return subjects.Partition(0).Stream() }

// Sizes and targets of a drain.
const (
	smallDrain  = 1000
	smallDrains = 10
	drainSpread = 0.20 // relative deviation of the CPU per call in the large drain
	drainGrowth = 1.20 // factor of the executor's memory between a tenth of the drain and its end
	drainSlack  = 16.0 // MB
)

// drain admits calls while the consumers are paused, and then lets the executor run them: first small drains, then a
// large one.
func drain(ctx context.Context, o Options, r *Report) (err error) {
	o.Identity = false // a token of a caller does not permit pausing consumers
	d, err := o.startDrain(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if _, err := d.run(ctx, smallDrain); err != nil { // warm-up
		return err
	}
	var small drained
	for range smallDrains {
		one, err := d.run(ctx, smallDrain)
		if err != nil {
			return err
		}
		small.add(one)
	}
	o.say("drain: %d × %d calls: %.0f µs each, %.0f µs CPU", smallDrains, smallDrain, small.each(small.took),
		small.each(small.cpu))
	large, err := d.run(ctx, o.Drain)
	if err != nil {
		return err
	}
	o.say("drain: %d calls: %.0f µs each, %.0f µs CPU", o.Drain, large.each(large.took), large.each(large.cpu))
	grown := large.last / max(large.early+drainSlack, 1)
	ratio := large.each(large.cpu) / small.each(small.cpu)
	r.Results = append(r.Results, Result{
		Scenario: Drain,
		Facts: []Fact{
			{fmt.Sprintf("%d calls, time each", smallDrain), small.each(small.took), "µs"},
			{fmt.Sprintf("%d calls, CPU each", smallDrain), small.each(small.cpu), "µs"},
			{fmt.Sprintf("%d calls, writes each", smallDrain), float64(small.writes) / float64(small.calls), ""},
			{fmt.Sprintf("%d calls, time each", large.calls), large.each(large.took), "µs"},
			{fmt.Sprintf("%d calls, CPU each", large.calls), large.each(large.cpu), "µs"},
			{fmt.Sprintf("%d calls, writes each", large.calls), float64(large.writes) / float64(large.calls), ""},
			{"admission, CPU each", large.each(large.admission), "µs"},
			{"executor after a tenth", large.early, "MB"}, {"executor at the end", large.last, "MB"},
			{"dispatcher at the end", large.dispatcher, "MB"},
		},
		Checks: []Check{
			atMost("CPU per call, large drain / small drain", ratio, 1+drainSpread),
			atLeast("CPU per call, large drain / small drain", ratio, 1-drainSpread),
			atMost("executor memory, end / (tenth + 16 MB)", grown, drainGrowth),
		},
	})
	return nil
}

// drained holds the cost of a drain. CPU is that of server, dispatcher and executor.
type drained struct {
	calls          int
	writes         uint64 // after the admissions
	took           time.Duration
	cpu, admission time.Duration
	early, last    float64 // memory of the executor after a tenth and at the end, in MB
	dispatcher     float64
}

func (d *drained) add(e drained) {
	d.calls, d.took, d.cpu, d.writes = d.calls+e.calls, d.took+e.took, d.cpu+e.cpu, d.writes+e.writes
}

func (d drained) each(t time.Duration) float64 {
	return float64(t) / float64(time.Microsecond) / float64(d.calls)
}

// draining is a bus whose dispatcher and executor are processes.
type draining struct {
	host                 *host
	dispatcher, executor *process.Process
	client               *client.Client
	js                   jetstream.JetStream
	ids                  numbers
	stops                []func()
}

func (o Options) startDrain(ctx context.Context) (d *draining, err error) {
	d = &draining{}
	begun := d
	defer func() {
		if err != nil {
			_ = begun.close() // err is the more useful error
		}
	}()
	if o.Identity {
		d.host, err = o.startGuarded(ctx, "drain", Process)
	} else {
		d.host, err = o.startHost(ctx, "drain", Process, Interval)
	}
	if err != nil {
		return nil, err
	}
	d.stops = append(d.stops, d.host.close)
	tools := d.host.dir + "-tools"
	if err := writeTools(tools, 1, native.Transport); err != nil {
		return nil, err
	}
	for _, n := range []struct {
		role  string
		child **process.Process
	}{{Dispatcher, &d.dispatcher}, {Executor, &d.executor}} {
		args, err := d.host.node(n.role, "--tools", tools, "--slots", fmt.Sprint(o.Slots))
		if err != nil {
			return nil, err
		}
		if *n.child, err = process.Start(ctx, o.Self, d.host.dir, n.role, args...); err != nil {
			return nil, err
		}
		d.stops = append(d.stops, (*n.child).Stop)
	}
	var nc *nats.Conn
	if d.client, nc, err = d.host.caller(ctx, "bench-caller"); err != nil {
		return nil, err
	}
	d.stops = append(d.stops, nc.Close)
	d.js, err = jetstream.New(nc)
	return d, err
}

func (d *draining) close() error {
	var err error
	if d.client != nil {
		err = d.client.Close()
	}
	for i := len(d.stops) - 1; i >= 0; i-- {
		d.stops[i]()
	}
	return err
}

// run admits n calls and drains them.
func (d *draining) run(ctx context.Context, n int) (drained, error) {
	out := drained{calls: n}
	before, err := lastSeq(ctx, d.js, calls())
	if err != nil {
		return out, err
	}
	if err := d.pause(ctx, true); err != nil {
		return out, err
	}
	if out.admission, err = d.cpuOf(func() error { return d.admit(ctx, n) }, ctx); err != nil {
		return out, err
	}
	out.cpu, err = d.cpuOf(func() error {
		if err := d.pause(ctx, false); err != nil {
			return err
		}
		return d.await(ctx, n, &out)
	}, ctx)
	if err != nil {
		return out, err
	}
	last, err := lastSeq(ctx, d.js, calls())
	if err != nil {
		return out, err
	}
	out.writes = last - before - uint64(n)
	if out.took, err = d.span(ctx, before+uint64(n)+1, last); err != nil {
		return out, err
	}
	out.dispatcher, err = usage.ResidentMB(d.dispatcher.PID)
	return out, err
}

// pause pauses or resumes the consumers of work. It resumes by a pause that soon ends: after an explicit resume, the
// server delivers nothing until the next pull request.
func (d *draining) pause(ctx context.Context, on bool) error {
	until := time.Now().Add(50 * time.Millisecond)
	if on {
		until = time.Now().Add(24 * time.Hour)
	}
	for _, queue := range subjects.Queues() {
		name := subjects.Worker(tool.DefaultPool, queue)
		if _, err := d.js.PauseConsumer(ctx, calls(), name, until); err != nil {
			return fmt.Errorf("consumer %s: %w", name, err)
		}
	}
	return nil
}

// cpuOf returns the CPU time that the three processes use while f runs and until all events are recorded.
func (d *draining) cpuOf(f func() error, ctx context.Context) (time.Duration, error) {
	before, err := d.cpu()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	if err := settled(ctx, d.js); err != nil {
		return 0, err
	}
	after, err := d.cpu()
	return after - before, err
}

func (d *draining) cpu() (total time.Duration, err error) {
	for _, pid := range []int{d.host.pid, d.dispatcher.PID, d.executor.PID} {
		one, err := usage.CPU(pid)
		if err != nil {
			return 0, err
		}
		total += one
	}
	return total, nil
}

// admitters is the number of goroutines that make calls during the admission.
const admitters = 64

// admit makes n calls. It stops waiting for each as soon as it is accepted.
func (d *draining) admit(ctx context.Context, n int) error {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	errs := make([]error, admitters)
	for i := range admitters {
		wg.Go(func() {
			for left.Add(-1) >= 0 && errs[i] == nil {
				errs[i] = d.leave(ctx)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// leave makes one call and stops waiting when it is accepted.
func (d *draining) leave(ctx context.Context) error {
	once, cancel := context.WithCancel(ctx)
	defer cancel()
	accepted := false
	_, err := d.client.Call(once, client.Call{
		Tool: toolID(0), Function: fnEcho, Input: input(256), Key: key(d.ids.n.Add(1)), Timeout: 10 * time.Minute,
		OnAccepted: func(envelope.Accepted) { accepted = true; cancel() },
	})
	if accepted {
		return nil
	}
	return fmt.Errorf("a call was not accepted: %w", err)
}

// left returns the number of work messages that are not acknowledged.
func (d *draining) left(ctx context.Context) (left int, err error) {
	for step := range subjects.Steps { // all calls have normal priority
		queue := subjects.Queue(string(envelope.PriorityNormal), step)
		work, err := d.js.Consumer(ctx, calls(), subjects.Worker(tool.DefaultPool, queue))
		if err != nil {
			return 0, fmt.Errorf("work: %w", err)
		}
		left += int(work.CachedInfo().NumPending) + work.CachedInfo().NumAckPending
	}
	return left, nil
}

// await waits until all work is acknowledged. It measures the executor's memory after a tenth and at the end.
func (d *draining) await(ctx context.Context, n int, out *drained) error {
	for {
		left, err := d.left(ctx)
		if err != nil {
			return err
		}
		if out.early == 0 && left <= n-n/10 || left == 0 {
			if out.last, err = usage.ResidentMB(d.executor.PID); err != nil {
				return err
			}
			if out.early == 0 {
				out.early = out.last
			}
		}
		if left == 0 {
			return nil
		}
		if !until(ctx, time.Now().Add(10*time.Millisecond)) {
			return ctx.Err()
		}
	}
}

// span returns the time between two events of the log, by their timestamps.
func (d *draining) span(ctx context.Context, first, last uint64) (time.Duration, error) {
	s, err := d.js.Stream(ctx, calls())
	if err != nil {
		return 0, err
	}
	var at [2]time.Time
	for i, seq := range []uint64{first, last} {
		msg, err := s.GetMsg(ctx, seq)
		if err != nil {
			return 0, fmt.Errorf("event %d: %w", seq, err)
		}
		at[i] = msg.Time
	}
	return at[1].Sub(at[0]), nil
}
