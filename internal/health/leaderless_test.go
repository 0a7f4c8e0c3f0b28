package health

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// While most servers are down, each failed check says to start them, and none to change a stream or start a dispatcher.
func TestDiagnoseWithoutLeader(t *testing.T) {
	servers := natstest.StartCluster(t, 3)
	js := servers[0].JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	servers[1].Stop()
	servers[2].Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for bus.CheckLevel(t.Context(), js) == nil { // the server notices it after some seconds
		<-tick.C
	}
	failed := 0
	for _, c := range append(diagnoseStreams(t.Context(), js), diagnoseRecord(t.Context(), js, time.Now())) {
		if c.Status != envelope.CheckFailed {
			continue
		}
		if failed++; !strings.Contains(c.Fix, "start all servers") {
			t.Errorf("got %+v", c)
		}
	}
	if failed < 2 {
		t.Errorf("%d checks failed", failed)
	}
}
