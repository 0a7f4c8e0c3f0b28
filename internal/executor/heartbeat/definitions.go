package heartbeat

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Definitions is the part of a heartbeat about imported tools: the servers that the executor has compared, and the
// changed tools. Older builds send none.
type Definitions struct {
	// Compared are the MCP servers whose definitions the executor has compared with the approved ones.
	Compared []string `json:"compared,omitzero"`
	// Changed are the tools whose definitions differ from the approved ones.
	Changed []ChangedTool `json:"changed,omitzero"`
	// Offered are the names of tools that servers have and that were not imported, by server; at most [MaxDefinitions]
	// names of [maxOffered] bytes at most.
	Offered map[string][]string `json:"offered,omitzero"`
	// Announced is how often servers have announced a change of their resources or prompts, by server; at most
	// [MaxDefinitions] servers.
	Announced map[string]int64 `json:"announced,omitzero"`
	// MoreCompared and MoreChanged count the entries beyond [MaxDefinitions].
	MoreCompared int `json:"more_compared,omitzero"`
	MoreChanged  int `json:"more_changed,omitzero"`
}

// ChangedTool is a tool whose server no longer defines it as approved. Definition is the digest of the approved
// definition.
type ChangedTool struct {
	Tool       string `json:"tool"`
	Definition string `json:"definition"`
}

// MaxDefinitions is the largest length of each list of [Definitions]. It keeps heartbeats small.
const MaxDefinitions = 64

// Bounded returns d with lists of at most [MaxDefinitions].
func (d Definitions) Bounded() Definitions {
	if n := len(d.Compared) - MaxDefinitions; n > 0 {
		d.Compared, d.MoreCompared = d.Compared[:MaxDefinitions], d.MoreCompared+n
	}
	if n := len(d.Changed) - MaxDefinitions; n > 0 {
		d.Changed, d.MoreChanged = d.Changed[:MaxDefinitions], d.MoreChanged+n
	}
	d.Offered = bounded(d.Offered)
	if len(d.Announced) > MaxDefinitions {
		some := map[string]int64{}
		for _, server := range slices.Sorted(maps.Keys(d.Announced))[:MaxDefinitions] {
			some[server] = d.Announced[server]
		}
		d.Announced = some
	}
	return d
}

// maxOffered is the longest name in bytes of an offered tool.
const maxOffered = 128

// bounded returns at most [MaxDefinitions] of the names, those of the first servers.
func bounded(offered map[string][]string) map[string][]string {
	if len(offered) == 0 {
		return nil
	}
	some, n := map[string][]string{}, 0
	for _, server := range slices.Sorted(maps.Keys(offered)) {
		for _, name := range offered[server] {
			if n < MaxDefinitions && len(name) <= maxOffered && len(server) <= maxOffered {
				some[server] = append(some[server], name)
				n++
			}
		}
	}
	return some
}

// verdict reports whether d lists a tool as changed, or counts it as approved. Both are false if the executor has not
// compared the tool. If lists were cut, a server that is not listed counts as approved: the executor itself refuses a
// changed tool.
func (d Definitions) verdict(server string, t ChangedTool) (changed, approved bool) {
	if slices.Contains(d.Changed, t) {
		return true, false
	}
	return false, d.MoreCompared > 0 || slices.Contains(d.Compared, server)
}

// Findings keeps what the newest heartbeats of the running executors say of tools. The zero value is ready to use. Its
// methods are safe for concurrent use.
type Findings struct {
	mu    sync.Mutex
	pools map[string]map[string]finding // by pool and executor
	swept time.Time                     // when expired heartbeats were removed
}

// finding holds what one executor says, until its heartbeat expires.
type finding struct {
	Definitions
	missing    []MissingBuild
	unrunnable []UnrunnableTool
	until      time.Time
}

// Bounds of the kept findings: a process with permission to write heartbeats may write anything.
const (
	maxFindings  = 10_000
	maxBeatBytes = 64 << 10
)

// Hear stores what a published heartbeat says of tools. It ignores other messages.
func (f *Findings) Hear(msg *nats.Msg) {
	pool, executor, err := subjects.ParsePool(msg.Subject)
	if err != nil || len(msg.Data) > maxBeatBytes {
		return
	}
	b, err := decodeBeat(msg.Data)
	if err != nil {
		return
	}
	seconds, _ := strconv.Atoi(msg.Header.Get(jetstream.MsgTTLHeader)) // without the header, seconds is 0: expired
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(now)
	if f.pools == nil {
		f.pools = map[string]map[string]finding{}
	}
	if f.pools[pool] == nil {
		f.pools[pool] = map[string]finding{}
	}
	if len(f.pools[pool]) < maxFindings && len(f.pools) <= maxFindings {
		f.pools[pool][executor] = finding{
			b.Definitions, b.Missing, b.Unrunnable, now.Add(time.Duration(seconds) * time.Second),
		}
	}
}

// sweepEvery is the time between two removals of expired heartbeats. They do not count before, either.
const sweepEvery = time.Second

// expire removes the executors whose heartbeats have expired. The caller holds f.mu.
func (f *Findings) expire(now time.Time) {
	if now.Sub(f.swept) < sweepEvery {
		return
	}
	f.swept = now
	for pool, executors := range f.pools {
		maps.DeleteFunc(executors, func(_ string, said finding) bool { return now.After(said.until) })
		if len(executors) == 0 {
			delete(f.pools, pool)
		}
	}
}

// Offered returns the tools that servers of running executors have and that were not imported, by server.
func (f *Findings) Offered() map[string][]string {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string][]string{}
	for _, executors := range f.pools {
		for _, said := range executors {
			if now.After(said.until) {
				continue
			}
			for server, names := range bounded(said.Offered) {
				all[server] = slices.Compact(slices.Sorted(slices.Values(slices.Concat(all[server], names))))
			}
		}
	}
	return bounded(all)
}

// Announced returns how often a server has announced a change of its resources or prompts to running executors.
func (f *Findings) Announced(server string) (n int64) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, executors := range f.pools {
		for _, said := range executors {
			if !now.After(said.until) {
				n += said.Announced[server]
			}
		}
	}
	return n
}

// Changed reports whether running executors of the pool list a tool of a server as changed from the approved definition
// with this digest: all of the executors that have compared it, at least one, or only some of them.
func (f *Findings) Changed(pool, server, tool, definition string) (all, some bool) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	changed, approved := false, false
	for _, said := range f.pools[pool] {
		if now.After(said.until) {
			continue
		}
		c, a := said.verdict(server, ChangedTool{tool, definition})
		changed, approved = changed || c, approved || a
	}
	return changed && !approved, changed && approved
}
