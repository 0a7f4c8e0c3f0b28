package writer

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// admit writes the admission of call n of a tenant.
func admit(b *bustest.Bus, n int, tenant string) {
	b.T.Helper()
	id := fmt.Sprintf("id%05d", n)
	v := call.Admit(call.State{}, call.AdmitRequest{
		Owner: call.Owner{CallID: id, Actor: "agent"}, Fingerprint: "fp", Nonce: "q" + id,
		Pinned: call.Pinned{Tenant: tenant, Tool: "echo", ID: id, Version: "1.0.0", Class: call.Pure, Pool: "default",
			Fingerprint: "fp"},
		Deadline: call.At(time.Now().Add(time.Minute)), Now: call.At(time.Now()),
	})
	if _, err := b.Log.Write(b.T.Context(), v.Event, []byte(`{"request":{}}`)); err != nil {
		b.T.Fatal(err)
	}
}

// observed returns a projector that has observed the whole log and written nothing.
func observed(b *bustest.Bus) *Projector {
	b.T.Helper()
	p, from, err := NewProjector(b.T.Context(), b.JS, 0, slog.New(slog.DiscardHandler), func() uint64 { return 0 })
	if err != nil {
		b.T.Fatal(err)
	}
	follower := kv.NewFollower(b.JS, 0)
	bustest.Run(b.T, func(ctx context.Context) {
		if err := follower.Run(ctx, from, func(o kv.FollowedEvent) { p.Observe(ctx, o) }); err != nil {
			b.T.Error(err)
		}
	})
	if err := follower.CatchUp(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
	return p
}

// chained reads all segments of the partition and checks that they form a chain.
func chained(b *bustest.Bus) (all []audit.OpenedSegment) {
	b.T.Helper()
	prev, through := "", audit.Position{}
	for msg, err := range bus.Messages(b.T.Context(), b.JS, subjects.AuditStream,
		jetstream.OrderedConsumerConfig{FilterSubjects: []string{subjects.Partition(0).AuditLog()}}, bus.ReadTimeout) {
		if err != nil {
			b.T.Fatal(err)
		}
		s, ok, err := audit.Open(msg.Data())
		if err != nil || !ok || s.Whole() != nil {
			b.T.Fatalf("%t, %v, %v: %s", ok, err, s.Whole(), msg.Data())
		}
		if s.Prev != prev || !s.After.Time.Equal(through.Time) || s.After.Seq != through.Seq {
			b.T.Errorf("%+v does not follow on %s, %+v", s.Segment, prev, through)
		}
		prev = s.Hash
		if s.K == s.N {
			through = s.Through
		}
		all = append(all, s)
	}
	return all
}

// onRecord counts the records of each event.
func onRecord(b *bustest.Bus) map[uint64]int {
	b.T.Helper()
	n := map[uint64]int{}
	for _, r := range recorded(b.T, b.JS) {
		n[r.LogSeq]++
	}
	return n
}

// recorded returns the records in AUDIT.
func recorded(t *testing.T, js jetstream.JetStream) (all []audit.Record) {
	t.Helper()
	for m, err := range bus.Messages(t.Context(), js, subjects.AuditStream, jetstream.OrderedConsumerConfig{},
		bus.ReadTimeout) {
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := audit.Open(m.Data())
		if err != nil {
			t.Fatal(err)
		}
		for line := range s.Lines() {
			if r, ok, err := audit.Parse(string(line)); err != nil {
				t.Fatal(err)
			} else if ok {
				all = append(all, r)
			}
		}
	}
	return all
}

// If a dispatcher dies between two segments of a flush, the next projector completes the flush, whatever events came
// since. A dispatcher that was only suspended then adds nothing.
func TestFlushFinishedByAnother(t *testing.T) {
	const calls, tenants = 9, 3
	for stored := 1; stored < tenants; stored++ {
		for name, began := range map[string]bool{"waiting": true, "new": false} {
			t.Run(fmt.Sprint(stored, name), func(t *testing.T) {
				b := bustest.Start(t)
				for n := range calls {
					admit(b, n, fmt.Sprint("t", n%tenants))
				}
				dying := observed(b)
				var next *Projector
				if began {
					next = observed(b)
				}
				f := dying.next()
				lines, err := audit.SplitSegments(f.records, audit.MaxSegment)
				if err != nil {
					t.Fatal(err)
				}
				msgs, err := dying.chain.seal(lines, f.segment)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := dying.chain.append(t.Context(), msgs[:stored]); err != nil {
					t.Fatal(err)
				}
				admit(b, calls, "t0")
				if !began {
					next = observed(b)
				}
				var running sync.WaitGroup
				ctx, stop := context.WithCancel(t.Context())
				running.Go(func() {
					if err := next.Run(ctx); err != nil {
						t.Error(err)
					}
				})
				if err := WaitRecorded(t.Context(), b.JS); err != nil {
					t.Fatal(err)
				}
				if _, err := dying.chain.append(t.Context(), msgs[stored:]); !overtaken(err) {
					t.Errorf("what was frozen goes on: %v", err)
				}
				stop()
				running.Wait()
				all := chained(b)
				if len(all) != tenants+1 || all[tenants-1].K != tenants || all[tenants-1].Through != all[0].Through {
					t.Errorf("%d segments, the last of the flush is %+v", len(all), all[tenants-1].Segment)
				}
				have := onRecord(b)
				for n := range uint64(calls + 1) {
					if have[n+1] != 2 { // requested and allowed
						t.Errorf("%d records of event %d", have[n+1], n+1)
					}
				}
			})
		}
	}
}

// A flush with many tenants is stored as one batch, or as several if it is too large.
func TestFlushOfManyTenants(t *testing.T) {
	for _, tenants := range []int{fewSegments, 3 * fewSegments, batchSize + 2} {
		t.Run(fmt.Sprint(tenants), func(t *testing.T) {
			b := bustest.Start(t)
			for n := range tenants {
				admit(b, n, fmt.Sprint("t", n))
			}
			p := observed(b)
			if err := p.flush(t.Context(), p.next()); err != nil {
				t.Fatal(err)
			}
			if all := chained(b); len(all) != tenants || all[tenants-1].N != tenants {
				t.Errorf("%d segments", len(all))
			}
			if have := onRecord(b); len(have) != tenants {
				t.Errorf("%d records", len(have))
			}
		})
	}
}

// BenchmarkFlush measures a flush of the records of 5,000 calls a second in 200 ms, the longest linger, for one tenant
// and for a thousand. It must take less than the remaining 300 ms of half a second.
func BenchmarkFlush(b *testing.B) {
	for _, tenants := range []int{1, 1000} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(b *testing.B) {
			js := natstest.Start(b).JetStream(b)
			if err := bus.Ensure(b.Context(), js, bus.TopologyOptions{}); err != nil {
				b.Fatal(err)
			}
			p, _, err := NewProjector(b.Context(), js, 0, slog.New(slog.DiscardHandler), func() uint64 { return 0 })
			if err != nil {
				b.Fatal(err)
			}
			records, segments := make([]audit.Record, 2000), 0
			hash := strings.Repeat("2d7a270c", 8)
			for i := range records {
				records[i] = audit.Record{
					Event: audit.ToolExecuted, Name: "ToolSucceeded", Timestamp: time.Now().UTC(),
					Tenant: fmt.Sprint("t", i%tenants),
					Actor:  "agent://local", ToolName: "bench.echo0", Fn: "echo", ToolVersion: "1.0.0", Digest: hash,
					Ref: "bench_2eecho0.tvvkpo628dl23u4k9tut9d554b2032h7", CallID: "e1a7bd37-ad10-4d7e-b28e-2830c7fa493b",
					Attempt: 1, TraceID: "5d415971-e1b7-430a-8b5c-87d7bb21d42b", ArgumentsHash: hash, OutputHash: hash,
					Contract: audit.ContractVersion, LogSeq: uint64(i + 1),
				}
			}
			for b.Loop() {
				lines, err := audit.SplitSegments(records, audit.MaxSegment)
				if err != nil {
					b.Fatal(err)
				}
				msgs, err := p.chain.seal(lines, audit.Segment{Source: audit.SourceLog, K: 1})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := p.chain.append(b.Context(), msgs); err != nil {
					b.Fatal(err)
				}
				segments += len(msgs)
			}
			b.ReportMetric(float64(segments)/float64(b.N), "segments")
		})
	}
}
