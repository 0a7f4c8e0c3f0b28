package executor

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// jobs holds the messages that an executor handles, the runs of each tool, and the kills of attempts that have not
// arrived. A kill finds its job or is kept for it: one lock guards both. It is safe for concurrent use.
type jobs struct {
	mu     sync.Mutex
	all    map[call.AttemptKey]*job
	loads  map[string]*load              // of tools that run, or that messages wait for, by tool
	killed map[call.AttemptKey]time.Time // kills of attempts that are not here, until their deadline
	forgot time.Time                     // kills received before this time may have been dropped
	shared sharedContext                 // of the newest message
}

func newJobs() jobs {
	return jobs{
		all: map[call.AttemptKey]*job{}, loads: map[string]*load{}, killed: map[call.AttemptKey]time.Time{},
	}
}

// Errors of jobs.add.
var (
	errHandled = errors.New("the attempt is being handled here")
	errBusy    = errors.New("the tool has reached its concurrency here")
)

// add registers a job, and counts it among the runs of its tool if it needs one. With errBusy it returns the time after
// which the message must be delivered again. It sets j.shared and j.counted.
func (a *jobs) add(j *job, now time.Time) (again time.Duration, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	j.shared = a.sharedContext(j.ctx)
	if a.all[j.key()] != nil {
		return 0, errHandled
	}
	if j.build != nil && !j.stopped() { // a call that a lock stops needs no run of the tool
		l := a.load(j.tool())
		if l.runs >= j.build.Limits.Concurrency {
			return l.later(now), errBusy
		}
		l.runs++
		j.counted = true
	}
	a.all[j.key()] = j
	return 0, nil
}

// remove forgets a job.
func (a *jobs) remove(j *job, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, j.key())
	if !j.counted {
		return
	}
	l := a.load(j.tool())
	if l.runs--; l.runs == 0 && l.next.Before(now) { // no message waits for it
		delete(a.loads, j.tool())
	}
}

// Running returns the number of messages in progress.
func (e *Executor) Running() int {
	e.jobs.mu.Lock()
	defer e.jobs.mu.Unlock()
	return len(e.jobs.all)
}

// find returns the job of an attempt, or nil.
func (a *jobs) find(k call.AttemptKey) *job {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[k]
}

// leases returns the leases of all jobs.
func (a *jobs) leases() []Lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]Lease, 0, len(a.all))
	for _, j := range a.all {
		all = append(all, j.message.Lease)
	}
	return all
}

// maxKilled is the number of kills that are kept, of attempts that have not arrived. A process that can publish in the
// account of executors can forge kills.
const maxKilled = 10_000

// kill returns the job of an attempt. Without a job it keeps the kill until due. It removes expired kills only when
// it holds maxKilled, so that a flood of kills does not cause a pass over all of them for each one.
func (a *jobs) kill(k call.AttemptKey, due, now time.Time) *job {
	a.mu.Lock()
	defer a.mu.Unlock()
	if j := a.all[k]; j != nil {
		return j
	}
	if len(a.killed) >= maxKilled {
		maps.DeleteFunc(a.killed, func(_ call.AttemptKey, due time.Time) bool { return !due.After(now) })
		if len(a.killed) > maxKilled/2 {
			clear(a.killed)
			a.forgot = now
		}
	}
	a.killed[k] = due
	return nil
}

// heardKill reports whether a kill of the attempt was received before its job was added, or may have been dropped. An
// expired kill was for an earlier attempt with the same key, whose log has expired.
func (a *jobs) heardKill(j *job, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.killed[j.key()].After(now) || j.enqueued().Before(a.forgot.Add(killSlack))
}

// forgetKills removes all kills.
func (a *jobs) forgetKills() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.killed)
}

// decideTime is the time in which an executor that shuts down may still write the result of a run that has ended.
const decideTime = 10 * time.Second

// sharedContext holds the context of Handle, and what is derived from it once for all messages with the same context.
type sharedContext struct {
	ctx    context.Context
	longer context.Context // ends decideTime after ctx
	dog    *timer.Watchdog
}

// sharedContext returns that of ctx. Callers hold a.mu.
func (a *jobs) sharedContext(ctx context.Context) sharedContext {
	if a.shared.ctx != ctx {
		longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
		context.AfterFunc(ctx, func() { time.AfterFunc(decideTime, cancel) })
		a.shared = sharedContext{ctx, longer, timer.NewWatchdog(ctx)}
	}
	return a.shared
}

// load holds the running calls of one tool in this executor.
type load struct {
	runs int
	next time.Time // time at which the next message that finds the tool busy is delivered again
}

// load returns the load of a tool. Callers hold a.mu.
func (a *jobs) load(tool string) *load {
	l := a.loads[tool]
	if l == nil {
		l = &load{}
		a.loads[tool] = l
	}
	return l
}

// Delays after which a message is delivered again that finds its tool busy.
const (
	busyDelay = 50 * time.Millisecond // smallest delay
	busySpace = time.Millisecond      // time between messages that wait for the same tool
	busyMost  = 2 * time.Second       // largest delay
)

// later returns the delay for a message that finds the tool busy. Successive messages get successive times, so that a
// long queue causes no more deliveries than a short one.
func (l *load) later(now time.Time) time.Duration {
	soonest, latest := now.Add(busyDelay), now.Add(busyMost)
	if l.next.Before(soonest) {
		l.next = soonest
	}
	if l.next.After(latest) {
		l.next = latest
	}
	again := l.next.Sub(now)
	l.next = l.next.Add(busySpace)
	return again
}
