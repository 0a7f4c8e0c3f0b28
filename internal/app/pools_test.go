package app

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The consumers of all pools fit into a stream. A dispatcher with more pools says how many there may be.
func TestPoolsFit(t *testing.T) {
	const mostConsumers = 1000 // of a stream
	if n := workqueue.MaxPools * len(subjects.Queues()); n >= mostConsumers {
		t.Errorf("%d consumers", n)
	}
	if err := fewPools(make([]string, workqueue.MaxPools)); err != nil {
		t.Error(err)
	}
	if err := fewPools(make([]string, workqueue.MaxPools+1)); err == nil || !strings.Contains(err.Error(), "80") {
		t.Errorf("too many pools: %v", err)
	}
}
