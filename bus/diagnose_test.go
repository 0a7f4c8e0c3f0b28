package bus

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// An event that is not on record for long is a failure: nothing is admitted meanwhile.
func TestDiagnoseRecord(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := Ensure(t.Context(), js, TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	if c := diagnoseRecord(t.Context(), js, time.Now()); c.Status != CheckOK {
		t.Errorf("empty: %+v", c)
	}
	key := subjects.Key{Tool: "echo", ID: "id"}
	for _, subject := range []string{key.Claim(1, "e"), key.Request(1, "1.0.0", "normal", "default")} {
		if _, err := js.Publish(t.Context(), subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	if c := diagnoseRecord(t.Context(), js, time.Now()); c.Status != CheckOK {
		t.Errorf("just written: %+v", c)
	}
	if c := diagnoseRecord(t.Context(), js, time.Now().Add(time.Minute)); c.Status != CheckFailed || c.Fix == "" {
		t.Errorf("a minute ago: %+v", c)
	}
	idle := diagnosePools(t.Context(), js, []ToolInfo{{ToolID: "echo", Pool: "gpu"}})
	if len(idle) != 1 || idle[0].Status != CheckWarning {
		t.Errorf("pool without executors: %+v", idle)
	}
}

// Beats that the server has forgotten to let expire count nobody alive.
func TestDiagnoseForgottenBeats(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := Ensure(t.Context(), js, TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), subjects.PoolSubject("gpu", "ghost"), nil); err != nil {
		t.Fatal(err)
	}
	if c := diagnoseExecutors(t.Context(), js); c.Status != CheckOK {
		t.Errorf("just beaten: %+v", c)
	}
	<-time.After(DefaultLease + 100*time.Millisecond)
	if c := diagnoseExecutors(t.Context(), js); c.Status != CheckFailed || c.Fix == "" {
		t.Errorf("long ago: %+v", c)
	}
	if idle := diagnosePools(t.Context(), js, []ToolInfo{{ToolID: "echo", Pool: "gpu"}}); len(idle) != 1 {
		t.Errorf("pool without executors: %+v", idle)
	}
}
