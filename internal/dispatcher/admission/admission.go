package admission

import (
	"cmp"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/dispatcher/answer"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/deadline"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Capacity reports whether the deployment can admit more calls.
type Capacity interface {
	AuditBehind() time.Duration // lag of the audit record behind the call log
	LogFull() bool              // the call log is above its high-water mark
	// Over returns the bytes that an owner keeps in the call log, and the share that they exceed; zeros if they do not.
	Over(of subjects.Owner) (used, share int64)
	// OverRecord returns the same of a tenant in the stream AUDIT, if a full AUDIT drops no records.
	OverRecord(tenant string) (used, share int64)
}

// Pools reports what the executors of pools do.
type Pools interface {
	// Steps returns how many steps executors of the pool are known to pull: all 4, 2 (the first and the last), or fewer
	// (the first). It sends no messages.
	Steps(pool string) int
}

// Options configures an [Admission]. Capacity is required.
type Options struct {
	Capacity Capacity
	AuditLag time.Duration // largest lag of the audit record at which calls are admitted; default 10 s
	// OpenPerActor and OpenPerTenant are the largest numbers of open attempts of one actor and one tenant; further calls
	// are refused. Default 100,000 and 200,000.
	OpenPerActor, OpenPerTenant int
	// OverflowAfter is the largest number of open attempts of an actor that are few, see [flow.Standing.Rank]; default 8.
	OverflowAfter int
}

// Parts are the parts of a dispatcher that an [Admission] uses. If Pools is nil, all calls are of the first step.
type Parts struct {
	Checks    *check.Stages
	Answers   *answer.Answers
	Deadlines *deadline.Deadlines
	Queues    *Queues
	Records   answer.Recorder
	Pools     Pools
	Open      *flow.Counters // counts the open attempts that Deadlines watches
}

// Admission writes the requests and joins of one dispatcher. Make one with [New]. Its methods are safe for concurrent
// use.
type Admission struct {
	*answer.Process
	*Options
	Parts
}

// New returns an Admission. It sets the defaults of o.
func New(p *answer.Process, o *Options, with Parts) *Admission {
	o.AuditLag = cmp.Or(o.AuditLag, 10*time.Second)
	o.OpenPerActor = cmp.Or(o.OpenPerActor, DefaultOpenPerActor)
	o.OpenPerTenant = cmp.Or(o.OpenPerTenant, DefaultOpenPerTenant)
	o.OverflowAfter = cmp.Or(o.OverflowAfter, DefaultOverflowAfter)
	return &Admission{p, o, with}
}
