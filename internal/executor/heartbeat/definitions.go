package heartbeat

import (
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
	// Compared are the servers whose definitions the executor has compared with those that were approved.
	Compared []string `json:"compared,omitzero"`
	// Changed are the tools that they define otherwise.
	Changed []ChangedTool `json:"changed,omitzero"`
	// MoreCompared and MoreChanged count what the lists had no room for.
	MoreCompared int `json:"more_compared,omitzero"`
	MoreChanged  int `json:"more_changed,omitzero"`
}

// ChangedTool is a tool that its server defines otherwise than the definition with this digest, which was approved.
type ChangedTool struct {
	Tool       string `json:"tool"`
	Definition string `json:"definition"`
}

// MaxDefinitions is the length of each list of [Definitions]: a heartbeat is sent every other second.
const MaxDefinitions = 64

// Bounded returns d with lists of at most [MaxDefinitions].
func (d Definitions) Bounded() Definitions {
	if n := len(d.Compared) - MaxDefinitions; n > 0 {
		d.Compared, d.MoreCompared = d.Compared[:MaxDefinitions], d.MoreCompared+n
	}
	if n := len(d.Changed) - MaxDefinitions; n > 0 {
		d.Changed, d.MoreChanged = d.Changed[:MaxDefinitions], d.MoreChanged+n
	}
	return d
}

// verdict returns what d says of a tool: that it is changed, or that it is as approved. Neither holds where the
// executor has not compared it. One that d may have had no room for counts as approved: the executor itself refuses it.
func (d Definitions) verdict(server string, t ChangedTool) (changed, approved bool) {
	for _, c := range d.Changed {
		if c == t {
			return true, false
		}
	}
	for _, name := range d.Compared {
		if name == server {
			return false, true
		}
	}
	return false, d.MoreCompared > 0
}

// Findings keeps what the executors that live have said of the definitions of tools in their newest heartbeats. The
// zero value is ready. Its methods are safe for concurrent use.
type Findings struct {
	mu    sync.Mutex
	pools map[string]map[string]finding // by pool and executor
}

// finding holds the Definitions of one executor until its heartbeat expires.
type finding struct {
	Definitions
	until time.Time
}

// Bounds of the kept findings: a process with permission to write heartbeats may write anything.
const (
	maxFindings  = 10_000
	maxBeatBytes = 64 << 10
)

// Hear takes a published heartbeat. It ignores any other message.
func (f *Findings) Hear(msg *nats.Msg) {
	pool, executor, err := subjects.ParsePool(msg.Subject)
	if err != nil || len(msg.Data) > maxBeatBytes {
		return
	}
	b, err := decodeBeat(msg.Subject, msg.Data)
	if err != nil {
		return
	}
	seconds, _ := strconv.Atoi(msg.Header.Get(jetstream.MsgTTLHeader)) // without one it has expired
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire(pool, now)
	if len(b.Definitions.Changed)+len(b.Definitions.Compared) == 0 {
		delete(f.pools[pool], executor)
		return
	}
	if f.pools == nil {
		f.pools = map[string]map[string]finding{}
	}
	if f.pools[pool] == nil {
		f.pools[pool] = map[string]finding{}
	}
	if len(f.pools[pool]) < maxFindings && len(f.pools) <= maxFindings {
		f.pools[pool][executor] = finding{b.Definitions, now.Add(time.Duration(seconds) * time.Second)}
	}
}

// expire forgets the executors of a pool whose heartbeats have expired. Callers hold f.mu.
func (f *Findings) expire(pool string, now time.Time) {
	for executor, said := range f.pools[pool] {
		if now.After(said.until) {
			delete(f.pools[pool], executor)
		}
	}
	if len(f.pools[pool]) == 0 {
		delete(f.pools, pool)
	}
}

// Changed reports whether a server has changed a tool for all executors of the pool that have compared the definition
// with this digest, and for one at least; and whether it has for some of them alone. An executor that has not compared
// it does not count.
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
