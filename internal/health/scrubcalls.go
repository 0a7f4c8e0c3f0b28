package health

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// calls compares the call log with the list of kept calls, which has no names, and with the audit record, which has.
type calls struct {
	log   *kv.Log
	parts []positions // events that were read, by partition

	mu  sync.Mutex
	odd map[string]oddCall // by reference
}

// oddCall is a call with events that cannot be read, or whose newest event was not read.
type oddCall struct {
	tool, id, tenant string
	partial          bool // it has events that cannot be read
	ended            bool // dispatchers refuse requests for it
}

func newCalls(partitions int) *calls {
	return &calls{parts: make([]positions, partitions), odd: map[string]oddCall{}}
}

// partition returns the set of the events of a stream, or nil if it is not of the call log.
func (c *calls) partition(stream string) *positions {
	for p := range c.parts {
		if subjects.Partition(p).Stream() == stream {
			return &c.parts[p]
		}
	}
	return nil
}

// positions is a set of sequences, in one bit each.
type positions struct {
	first uint64
	bits  []uint64
}

func (p *positions) add(seq uint64) {
	if p.first == 0 {
		p.first = seq
	}
	at := seq - p.first
	if more := int(at/64) + 1 - len(p.bits); more > 0 {
		p.bits = append(p.bits, make([]uint64, more)...)
	}
	p.bits[at/64] |= 1 << (at % 64)
}

// has reports whether the set has a sequence with this low half.
func (p *positions) has(seq uint32) bool {
	at := uint64(seq - uint32(p.first))
	return at/64 < uint64(len(p.bits)) && p.bits[at/64]&(1<<(at%64)) != 0
}

// logOf returns the filter of the log that an event is of.
func logOf(subject string) string {
	t := strings.SplitN(subject, ".", 5) // $KV, bucket, tool, id
	return strings.Join(t[:min(4, len(t))], ".") + ".>"
}

// refOf is the inverse of logOf, without the partition.
func refOf(filter string) string {
	if t := strings.SplitN(filter, ".", 5); len(t) == 5 {
		return t[2] + "." + t[3]
	}
	return filter
}

// lost notes the logs of which events cannot be read.
func (c *calls) lost(filters []string) {
	for _, filter := range filters {
		ref := refOf(filter)
		key, _ := subjects.ParseRef(ref)
		c.odd[ref] = oddCall{tool: key.Tool, id: key.ID, partial: true}
	}
}

// segment reads a segment of the audit record.
func (c *calls) segment(s audit.OpenedSegment) {
	for line := range s.Lines() {
		if r, ok, err := audit.Decode(line); ok && err == nil && r.LogSeq > 0 {
			c.record(&r)
		}
	}
}

func (c *calls) record(r *audit.Record) {
	if odd, ok := c.odd[r.Ref]; ok {
		odd.tool, odd.tenant = strings.Clone(r.ToolName), strings.Clone(r.Tenant)
		c.odd[r.Ref] = odd
		return
	}
	key, err := subjects.ParseRef(r.Ref)
	if err != nil || int(r.LogPart) >= len(c.parts) {
		return
	}
	if newest, known := c.log.Newest(r.ToolName, key.ID); known && !c.parts[r.LogPart].has(newest) {
		c.odd[strings.Clone(r.Ref)] = oddCall{tool: strings.Clone(r.ToolName), id: strings.Clone(key.ID),
			tenant: strings.Clone(r.Tenant)}
	}
}

// judge looks at each of these calls as dispatchers do: events may have expired since, or an operator has decided.
func (c *calls) judge(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for ref, odd := range maps.Clone(c.odd) {
		group.Go(func() error {
			_, err := c.log.Read(ctx, odd.tool, odd.id)
			damaged, ok := errors.AsType[*call.DamagedError](err)
			odd.ended = ok && !damaged.Refused
			c.mu.Lock()
			defer c.mu.Unlock()
			c.odd[ref] = odd
			if ok {
				return nil
			}
			return err
		})
	}
	return group.Wait()
}

// names returns the damaged calls of a partition with their tenants.
func (c *calls) names(p subjects.Partition) (all []string) {
	for _, ref := range slices.Sorted(maps.Keys(c.odd)) {
		odd := c.odd[ref]
		if !odd.partial && !odd.ended || subjects.PartitionOf(odd.id, len(c.parts)) != p {
			continue
		}
		if odd.tenant != "" {
			ref += " of tenant " + odd.tenant
		}
		if !odd.ended {
			ref += " (the newest event is whole)"
		}
		all = append(all, ref)
	}
	return all
}
