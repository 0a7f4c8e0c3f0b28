package kv

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A batch has one event of a log at the most, and bounds.
func TestFitting(t *testing.T) {
	of := func(log string, size int) *writer {
		return &writer{msg: &nats.Msg{Data: make([]byte, size),
			Header: nats.Header{jetstream.ExpectedLastSubjSeqSubjHeader: {log}}}}
	}
	many := make([]*writer, 2*maxBatch)
	for i := range many {
		many[i] = of(string(rune('a'+i)), 1)
	}
	for name, c := range map[string]struct {
		waiting []*writer
		want    int
	}{
		"all":             {[]*writer{of("a", 1), of("b", 1), of("c", 1)}, 3},
		"the same log":    {[]*writer{of("a", 1), of("b", 1), of("a", 1), of("c", 1)}, 2},
		"the same, twice": {[]*writer{of("a", 1), of("a", 1)}, 1},
		"many":            {many, maxBatch},
		"large":           {[]*writer{of("a", maxBatchBytes/2), of("b", maxBatchBytes/2), of("c", 1)}, 2},
		"one too large":   {[]*writer{of("a", 2*maxBatchBytes), of("b", 1)}, 1},
	} {
		if got := fitting(c.waiting); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
