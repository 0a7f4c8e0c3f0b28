package bench

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/bench/usage"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// processUsage holds the totals at one time.
type processUsage struct {
	self, server  time.Duration // CPU time
	wakeUps       uint64        // of this process
	serverWakeUps uint64
	writeCalls    uint64 // system calls of this process
	mallocs       uint64
	bytes         uint64
	writes        uint64 // messages stored in streams
	messages      [parties]traffic
	wire          uint64 // bytes of messages
}

// counted is one or several connections of a party.
type counted interface{ Stats() nats.Statistics }

// party counts several connections as one.
type party struct {
	mu    sync.Mutex
	conns []func() nats.Statistics
}

func (p *party) add(stats func() nats.Statistics) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, stats)
}

// Stats returns the sum of the statistics of the connections.
func (p *party) Stats() (all nats.Statistics) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, stats := range p.conns {
		more := stats()
		all.InMsgs, all.OutMsgs = all.InMsgs+more.InMsgs, all.OutMsgs+more.OutMsgs
		all.InBytes, all.OutBytes = all.InBytes+more.InBytes, all.OutBytes+more.OutBytes
	}
	return all
}

// parties is the number of parties: caller, dispatcher and worker.
const parties = 3

// traffic is the number of messages of a party.
type traffic struct{ sent, received uint64 }

// meter reads what one side has used.
type meter struct {
	server  int       // pid; 0 if the server is embedded
	conns   []counted // of caller, dispatcher and worker
	js      jetstream.JetStream
	streams []string
}

// streams returns the streams to which Toolbus writes for a call.
func streams(partitions int) []string {
	all := []string{subjects.AuditStream}
	for p := range subjects.Partition(max(1, partitions)) {
		all = append(all, p.Stream())
	}
	return all
}

func (m meter) read(ctx context.Context) (processUsage, error) {
	var u processUsage
	for _, name := range m.streams {
		seq, err := lastSeq(ctx, m.js, name)
		if err != nil {
			return u, err
		}
		u.writes += seq
	}
	for i, nc := range m.conns {
		s := nc.Stats()
		u.messages[i] = traffic{sent: s.OutMsgs, received: s.InMsgs}
		u.wire += s.InBytes + s.OutBytes
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	u.mallocs, u.bytes = mem.Mallocs, mem.TotalAlloc
	var err error
	if m.server > 0 {
		if u.server, err = usage.CPU(m.server); err != nil {
			return u, err
		}
		if u.serverWakeUps, err = usage.WakeUps(m.server); err != nil {
			return u, err
		}
	}
	if u.writeCalls, err = usage.WriteCalls(); err != nil {
		return u, err
	}
	u.self, u.wakeUps, err = usage.Own()
	return u, err
}

// since returns the difference between u and before.
func (u processUsage) since(before processUsage) processUsage {
	for i, b := range before.messages {
		u.messages[i].sent -= b.sent
		u.messages[i].received -= b.received
	}
	u.self, u.server = u.self-before.self, u.server-before.server
	u.wakeUps, u.serverWakeUps = u.wakeUps-before.wakeUps, u.serverWakeUps-before.serverWakeUps
	u.mallocs, u.bytes = u.mallocs-before.mallocs, u.bytes-before.bytes
	u.writeCalls -= before.writeCalls
	u.writes, u.wire = u.writes-before.writes, u.wire-before.wire
	return u
}
