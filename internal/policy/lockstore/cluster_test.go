package lockstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// A lock that is damaged at rest at the leader of three servers holds, and so does one that is set then. Dispatchers
// that run know both, and those that start then, whichever server leads.
func TestDamagedLocksOfThree(t *testing.T) {
	o := &offices{Bus: bustest.StartCluster(t)}
	before, _ := o.served()
	o.lock(before, request("echo0"))
	o.lead()
	o.damage(subjects.ControlStream, 3)
	o.lead()
	o.lock(before, request("echo1"))
	for range 2 {
		after, stop := o.served()
		for _, tool := range []string{"echo0", "echo1"} {
			o.holds(request(tool), before, after)
		}
		stop()
		o.Srv.Restart() // another server leads
	}
	if a, refusal := before.Unlock(t.Context(), ada, request("echo0")); refusal != nil || len(a.Locks) != 1 {
		t.Errorf("%+v, %v", a, refusal)
	}
}

// lead makes the server of the bus the leader of the bucket, which it can be once it has all that the others have.
func (o *offices) lead() {
	o.T.Helper()
	prefer := fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, o.Srv.Name())
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(o.T.Context(), time.Second)
		s, err := o.JS.Stream(ctx, subjects.ControlStream)
		cancel()
		if err == nil && s.CachedInfo().Cluster.Leader == o.Srv.Name() {
			return
		}
		// An election may be under way: then the server refuses, or does not answer.
		_, _ = o.NC.Request("$JS.API.STREAM.LEADER.STEPDOWN."+subjects.ControlStream, prefer, time.Second)
	}
	o.T.Fatal("the server does not become the leader of the locks")
}
