//go:build unix

package main

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// storedRecords is the number of stored records for the benchmark, and perFlush the number of records in a segment.
const (
	storedRecords = 200_000
	perFlush      = 500
)

// BenchmarkAuditReplay reads the record from an embedded server, and prints it.
func BenchmarkAuditReplay(b *testing.B) {
	srv := natstest.Start(b)
	js := srv.JetStream(b)
	if err := bus.Ensure(b.Context(), js, bus.TopologyOptions{}); err != nil {
		b.Fatal(err)
	}
	storeRecords(b, js)
	for name, line := range map[string]string{
		"json":  "audit replay --json",
		"tool":  "audit replay --json --tool tool.7",
		"table": "audit replay",
		"last":  "audit replay --last 20",
	} {
		b.Run(name, func(b *testing.B) {
			before := cpuTime(b)
			for b.Loop() {
				env := environment{url: srv.URL, stdout: io.Discard, stderr: io.Discard}
				if code := run(b.Context(), env, strings.Fields(line)); code != 0 {
					b.Fatal(code)
				}
			}
			read := float64(storedRecords) * float64(b.N)
			b.ReportMetric(read/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/read, "cpu-ns/record") // which a busy machine leaves alone
		})
	}
}

// cpuTime returns the CPU time of this process, which includes the server.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func storeRecords(b *testing.B, js jetstream.JetStream) {
	b.Helper()
	hash := strings.Repeat("2d7a270c", 8)
	start := time.Now().UTC()
	for n := 0; n < storedRecords; n += perFlush {
		records := make([]audit.Record, perFlush)
		for i := range records {
			tool := fmt.Sprint("tool.", (n+i)%20)
			records[i] = audit.Record{
				Event: audit.ToolExecuted, Name: "ToolSucceeded", Timestamp: start.Add(time.Duration(n+i) * time.Millisecond),
				Tenant: "default", Actor: "agent://local", ToolName: tool, Fn: "run", ToolVersion: "1.0.0",
				Digest: "sha256:" + hash, Determinism: call.Pure, Ref: "tool_2e7.tvvkpo628dl23u4k9tut9d554b2032h7",
				CallID: fmt.Sprintf("%08x-ad10-4d7e-b28e-2830c7fa493b", n+i), Attempt: 1,
				TraceID: "5d415971-e1b7-430a-8b5c-87d7bb21d42b", ArgumentsHash: hash, OutputHash: hash,
				Contract: audit.ContractVersion, Status: envelope.Success,
				Effect: envelope.EffectApplied, DecidedBy: call.ByExecutor, Fence: uint64(n + i), LogSeq: uint64(n + i + 1),
			}
		}
		lines, err := audit.SplitSegments(records, audit.MaxSegment)
		if err != nil {
			b.Fatal(err)
		}
		for k, l := range lines {
			data, _, err := l.Seal(audit.Segment{Source: audit.SourceLog, K: k + 1, N: len(lines)})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := js.Publish(b.Context(), subjects.Partition(0).Audit(l.Tenant), data); err != nil {
				b.Fatal(err)
			}
		}
	}
}
