package toolbus_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// allowAs adds a role and a lane to the policy of a bus, with which every call is allowed, too.
func allowAs(t *testing.T, b *toolbustest.Bus, role, lane string) {
	t.Helper()
	operator, err := admin.Connect(t.Context(), b.URL, admin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	all, err := operator.PolicyHistory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := operator.Policy(t.Context(), all[0])
	if err != nil {
		t.Fatal(err)
	}
	p.Roles = fmt.Appendf(p.Roles, "  - {role_id: %q, allowed_lanes: [%q]}\n", role, lane)
	if lane != "default" {
		p.Lanes = fmt.Appendf(p.Lanes, "  - {lane_id: %q, allowed_tools: ['*'], write: true, runs: implicit}\n", lane)
		const lanes = "allowed_lanes: [default"
		p.ToolRegistry = []byte(strings.ReplaceAll(string(p.ToolRegistry), lanes, fmt.Sprintf("%s, %q", lanes, lane)))
	}
	if _, err := operator.PushPolicy(t.Context(), p, all[0].Revision, "a further role"); err != nil {
		t.Fatal(err)
	}
}

// begin starts a run of the default actor, for the policy in force.
func begin(t *testing.T, b *toolbustest.Bus, id string) {
	t.Helper()
	operator, err := admin.Connect(t.Context(), b.URL, admin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	q := envelope.RunStartRequest{ID: id, Actors: []string{toolbus.DefaultActor}}
	if _, err := operator.StartRun(t.Context(), q); err != nil {
		t.Fatal(err)
	}
}
