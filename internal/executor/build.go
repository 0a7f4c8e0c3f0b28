package executor

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// errOtherBuild means that the next step needs the admitted build of the tool, which this executor does not have.
var errOtherBuild = errors.New("admitted for a build that this executor does not have")

// MissingBuild is a build of a tool that a call was admitted for and that this executor does not have. Build is the
// digest of the admitted build. Has is that of the build that the executor has instead, or "" if it does not have the
// tool.
type MissingBuild struct{ Tool, Build, Has string }

// Limits of the missing builds that an executor reports.
const (
	maxMissing = 32          // builds; the newest ones stay
	missingFor = time.Minute // time after the newest delivery of work for the build
)

// missingBuilds holds the builds that work was delivered for. Entries expire to keep heartbeats small.
type missingBuilds struct {
	mu   sync.Mutex
	at   map[MissingBuild]time.Time // of the newest delivery
	news chan struct{}              // signals a new entry
}

func newMissingBuilds() *missingBuilds {
	return &missingBuilds{at: map[MissingBuild]time.Time{}, news: make(chan struct{}, 1)}
}

// note records a delivery of work for b at a time. It reports whether b is new.
func (m *missingBuilds) note(b MissingBuild, now time.Time) (isNew bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(now)
	_, known := m.at[b]
	if !known && len(m.at) >= maxMissing {
		delete(m.at, m.newest()[maxMissing-1])
	}
	m.at[b] = now
	if !known {
		timer.Notify(m.news)
	}
	return !known
}

// expire removes old entries. Callers hold m.mu.
func (m *missingBuilds) expire(now time.Time) {
	maps.DeleteFunc(m.at, func(_ MissingBuild, at time.Time) bool { return now.Sub(at) > missingFor })
}

// newest returns all entries, the newest first. Callers hold m.mu.
func (m *missingBuilds) newest() []MissingBuild {
	return slices.SortedFunc(maps.Keys(m.at), func(a, b MissingBuild) int {
		return cmp.Or(m.at[b].Compare(m.at[a]), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Build, b.Build))
	})
}

// Missing returns the builds that this executor was handed work for in the last minute and does not have, the newest
// first, at most 32. Heartbeats report them: if all live executors of a pool do not have a build, dispatchers end its
// calls.
func (e *Executor) Missing() []MissingBuild {
	now := e.Now()
	e.missing.mu.Lock()
	defer e.missing.mu.Unlock()
	e.missing.expire(now)
	return slices.DeleteFunc(e.missing.newest(), func(b MissingBuild) bool { // loaded since
		return e.Catalog.Build(b.Tool, b.Build) != nil
	})
}

// MissingChanged returns a channel with a value after [Executor.Missing] has a new entry. A heartbeat should be sent
// then.
func (e *Executor) MissingChanged() <-chan struct{} { return e.missing.news }

// admitted returns the build that the call was admitted for, or nil if this executor does not have it. It reports and
// logs a missing one.
func (e *Executor) admitted(s call.State) *tool.Manifest {
	if m := e.Catalog.Build(s.Tool, s.Digest); m != nil {
		return m
	}
	b := MissingBuild{Tool: s.Tool, Build: s.Digest}
	if m, _ := e.Catalog.Get(s.Tool, s.Version); m != nil {
		b.Has = m.Digest
	}
	if e.missing.note(b, e.Now()) {
		e.Logger.Warn("handing work back: this executor does not have the admitted build of the tool",
			"tool", s.Tool, "pool", s.Pool, "call", s.ID, "admitted", call.ShortDigest(b.Build), "here", call.ShortDigest(b.Has))
	}
	return nil
}

// needsBuild reports whether the step runs the tool, or asks its lookup. A tool without a lookup is not asked.
func (j *job) needsBuild(step call.NextStep) bool {
	switch step {
	case call.Run, call.TakeClaim:
		return true
	case call.AskTool:
		return j.state.Lookup != call.LookupNo
	}
	return false
}
