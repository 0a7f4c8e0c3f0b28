package bench

import (
	"context"
	"runtime"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// usage is what had been used up at one moment.
type usage struct {
	self, server time.Duration // CPU
	mallocs      uint64
	bytes        uint64
	writes       uint64 // messages appended to streams
	messages     uint64 // sent and received by the connections
	wire         uint64 // bytes of them
}

// meter counts what one side uses.
type meter struct {
	server  int // pid; 0 without one
	conns   []*nats.Conn
	js      jetstream.JetStream
	streams []string
}

// streams are those to which the product writes for a call.
func streams(partitions int) []string {
	all := []string{subjects.AuditStream}
	for p := range subjects.Part(max(1, partitions)) {
		all = append(all, p.Stream())
	}
	return all
}

func (m meter) read(ctx context.Context) (usage, error) {
	var u usage
	for _, name := range m.streams {
		seq, err := lastSeq(ctx, m.js, name)
		if err != nil {
			return u, err
		}
		u.writes += seq
	}
	for _, nc := range m.conns {
		s := nc.Stats()
		u.messages += s.InMsgs + s.OutMsgs
		u.wire += s.InBytes + s.OutBytes
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	u.mallocs, u.bytes = mem.Mallocs, mem.TotalAlloc
	var err error
	if m.server > 0 {
		if u.server, err = processCPU(m.server); err != nil {
			return u, err
		}
	}
	u.self, err = ownCPU()
	return u, err
}

// since returns what was used between before and u.
func (u usage) since(before usage) usage {
	return usage{
		self: u.self - before.self, server: u.server - before.server, mallocs: u.mallocs - before.mallocs,
		bytes: u.bytes - before.bytes, writes: u.writes - before.writes, messages: u.messages - before.messages,
		wire: u.wire - before.wire,
	}
}
