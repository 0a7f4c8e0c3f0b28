package subjects

import (
	"fmt"
	"strings"
	"testing"
)

// The names of partitions are a contract as the others are; the first has those of a log that is not divided.
func TestPartNames(t *testing.T) {
	for p, want := range map[Partition][4]string{
		0: {"KV_calls", "$KV.calls.>", "tb.audit.calls.*", "$JS.API.CONSUMER.MSG.NEXT.KV_calls.exec_p_low"},
		1: {"KV_calls_1", "$KV.calls_1.>", "tb.audit.calls_1.*", "$JS.API.CONSUMER.MSG.NEXT.KV_calls_1.exec_p_low"},
		7: {"KV_calls_7", "$KV.calls_7.>", "tb.audit.calls_7.*", "$JS.API.CONSUMER.MSG.NEXT.KV_calls_7.exec_p_low"},
	} {
		if got := [4]string{p.Stream(), p.All(), p.AuditLog(), p.NextWork("p", "low")}; got != want {
			t.Errorf("partition %d: %q", p, got)
		}
		event := Key{Tool: "web.fetch", ID: id, Partition: p}.Claim(1, "e")
		parsed, err := ParseEvent(event)
		if err != nil || parsed.Key.Partition != p || parsed.Key.Claim(1, "e") != event ||
			!strings.HasPrefix(event, strings.TrimSuffix(p.All(), ">")) {
			t.Errorf("partition %d: %s is read as %+v: %v", p, event, parsed, err)
		}
		if got, _, ok := cutPart(event); got != p || !ok {
			t.Errorf("%s is in partition %d, %t", event, got, ok)
		}
	}
}

// Where a log is must never change: it would be looked for elsewhere, and the call run again.
func TestPartOfStaysAsItIs(t *testing.T) {
	for id, want := range map[string][3]Partition{
		id: {0, 0, 4}, "00000000000000000000000000000000": {0, 1, 5}, "a": {0, 0, 4}, "": {0, 1, 5},
	} {
		if got := [3]Partition{PartitionOf(id, 1), PartitionOf(id, 2), PartitionOf(id, 8)}; got != want {
			t.Errorf("%q is in %d", id, got)
		}
	}
	if PartitionOf(id, 0) != 0 || PartitionOf(id, -1) != 0 {
		t.Error("a log that says nothing of partitions has one")
	}
	counts := make([]int, 4)
	for n := range 4000 {
		counts[PartitionOf(fmt.Sprintf("%032d", n), 4)]++
	}
	for p, n := range counts {
		if n < 800 {
			t.Errorf("partition %d has %d of 4000 logs", p, n)
		}
	}
}

// What only looks like a partition is none.
func TestNoPart(t *testing.T) {
	for _, subject := range []string{
		"", "$KV", "$KV.calls", "$KV.calls_0.a.b.1.j", "$KV.calls_01.a.b.1.j", "$KV.calls_.a.b.1.j", "$KV.calls_x.a.b.1.j",
		"$KV.calls_-1.a.b.1.j", "$KV.calls_8.a.b.1.j", "$KV.calls_1_1.a.b.1.j", "$KV.calls2.a.b.1.j", "$KV.pools.a.b",
		"KV.calls.a.b.1.j",
	} {
		if p, _, ok := cutPart(subject); ok {
			t.Errorf("%q is in partition %d", subject, p)
		}
	}
}
