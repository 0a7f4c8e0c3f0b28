package attack

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/runstore"
)

// operator returns a client of the operator.
func (d *devDeployment) operator() *admin.Client {
	d.Helper()
	file := filepath.Join(d.TempDir(), "operator.token")
	d.ok(os.WriteFile(file, []byte(d.crowd[operator].token), 0o600))
	c, err := admin.Connect(d.Context(), d.url, admin.Options{CredentialsFile: file, NATS: d.options()})
	d.ok(err)
	d.Cleanup(func() { _ = c.Close() })
	return c
}

// bind adds a lane to the policy in force, in which every call is allowed, and starts runs of an actor.
func (d *devDeployment) bind(p auth.Principal, lane string, runs ...string) {
	d.Helper()
	c := d.operator()
	all, err := c.PolicyHistory(d.Context())
	d.ok(err)
	set, err := c.Policy(d.Context(), all[0])
	d.ok(err)
	const lanes = "allowed_lanes: [default"
	more := fmt.Appendf(nil, "%s, %s", lanes, lane)
	set.Roles = bytes.ReplaceAll(set.Roles, []byte(lanes), more)
	set.ToolRegistry = bytes.ReplaceAll(set.ToolRegistry, []byte(lanes), more)
	set.Lanes = fmt.Appendf(set.Lanes, "  - {lane_id: %s, allowed_tools: ['*'], write: true, runs: implicit}\n", lane)
	_, err = c.PushPolicy(d.Context(), set, all[0].Revision, "a further lane")
	d.ok(err)
	store, err := runstore.Open(d.Context(), d.js)
	d.ok(err)
	for _, id := range runs {
		d.ok(store.Create(d.Context(), envelope.Run{
			ID: id, Tenant: p.Tenant, Actors: []string{p.Actor}, State: "active",
			Policies: policy.Documents(set).Versions(), Start: time.Now(),
		}))
	}
}

// A policy holds against raw requests: in a role, a lane or a run of others, and for a tool that is not allowed at all.
// That tool is not described, either, and its calls are answered as those of a tool that does not exist.
func TestPolicyHolds(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.restrict(d.crowd[alice].Principal, "alices")
	runs, as := d.runs.Load(), func(name string, context map[string]any, tool string, want envelope.Code) asked {
		return asked{name: name, as: bob, context: context, tool: tool, want: want}
	}
	d.put(d.vouch([]asked{
		as("what is allowed", nil, "", ""),
		as("a role of others", map[string]any{"role_id": "boss", "lane_id": "vip"}, "", envelope.CodeScope),
		as("a role that there is not", map[string]any{"role_id": "root"}, "", envelope.CodeScope),
		as("a lane of others", map[string]any{"lane_id": "vip"}, "", envelope.CodeLane),
		as("a lane that there is not", map[string]any{"lane_id": "default\u0000"}, "", envelope.CodeLane),
		as("a run of others", map[string]any{"run_id": "alices"}, "", envelope.CodeRunUnknown),
		as("a run that there is not", map[string]any{"run_id": "made-up"}, "", envelope.CodeRunUnknown),
		as("an implicit run of others", map[string]any{"run_id": d.implicit(alice)}, "", envelope.CodeRunUnknown),
		as("a hidden tool", nil, "hold", envelope.CodeToolUnknown),
		as("a hidden tool, in the lane of others", map[string]any{"lane_id": "vip"}, "hold", envelope.CodeLane),
	}))
	if n := d.runs.Load(); n != runs {
		t.Errorf("the hidden tool ran %d times", n-runs)
	}
	c := d.client(d.crowd[bob])
	for _, id := range []string{"hold", "there-is-none"} {
		if a, err := c.Describe(t.Context(), envelope.DescribeRequest{Tool: id}); err != nil || len(a.Tools) > 0 {
			t.Errorf("%s is described as %+v, %v", id, a.Tools, err)
		}
	}
	d.finish()
}

// S16: a shared key does not reveal that a hidden tool was called with it. An agent from which the policy hides the
// tool gets the same answer as for a tool that does not exist. The agent that called the tool learns of its effect.
func TestSharedKeysHideTools(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.restrict(d.crowd[alice].Principal, "alices")
	plain := map[string]any{"role_id": "agent", "lane_id": "default"}
	vip := map[string]any{"role_id": "boss", "lane_id": "vip"}
	shared := map[string]any{"idempotency_key": auth.NewID(), "idempotency_scope": "global"}
	roles := []string{"agent", "boss"}
	both, _ := d.token(auth.Principal{
		Tenant: "acme", Actor: alice, Role: auth.Agent, RoleIDs: roles, Family: auth.NewFamily(roles),
	})
	tokens := map[string]string{alice: both, bob: d.crowd[bob].token}
	ask := func(as, tool, input string, context map[string]any) string {
		d.Helper()
		msg := d.told(asked{
			name: tool, as: as, token: tokens[as], tool: tool, input: input, context: context, limits: shared,
		})
		var r envelope.Response
		d.ok(json.Unmarshal(msg.Data, &r))
		if r.Error != nil { // without the ids of the request
			maps.DeleteFunc(r.Error.Details.Extra, func(name string, _ jsontext.Value) bool {
				return name == "call_id" || name == "trace_id"
			})
		}
		said := []any{r.Status, r.Error, r.Output, r.Provenance.NotStarted, r.SideEffects}
		text, err := json.Marshal(said, json.Deterministic(true))
		d.ok(err)
		return strings.ReplaceAll(string(text), tool, "TOOL")
	}
	close(d.paid.gate("shared").goOn)
	for _, tool := range []string{"weigh", "wiegh"} { // the second one does not exist
		_, err := d.victim.client.Call(t.Context(), clientlib.Call{Tool: tool, Input: []byte(`"shared"`)})
		d.ok(err)
	}
	for _, state := range []string{"before the call", "after it"} {
		for _, input := range []string{`"shared"`, `"another"`} {
			hidden, unknown := ask(bob, "weigh", input, plain), ask(bob, "wiegh", input, plain)
			if hidden != unknown || !strings.Contains(hidden, string(envelope.CodeToolUnknown)) {
				t.Errorf("%s, with %s:\nhidden:  %s\nunknown: %s", state, input, hidden, unknown)
			}
		}
		if got := ask(alice, "weigh", `"shared"`, vip); !strings.Contains(got, `"success"`) {
			t.Fatalf("the call that is allowed: %s", got)
		}
	}
	if got := ask(alice, "weigh", `"shared"`, plain); strings.Contains(got, `"effect":"none"`) {
		t.Errorf("who has called the tool is told %s", got)
	}
	d.finish()
}

// restrict pushes a policy in which the role agent may call echo and vault, and the role boss all tools, in another
// lane. It starts a run of an actor.
func (d *devDeployment) restrict(p auth.Principal, run string) {
	d.Helper()
	c := d.operator()
	all, err := c.PolicyHistory(d.Context())
	d.ok(err)
	set, err := c.Policy(d.Context(), all[0])
	d.ok(err)
	set.Roles = []byte("roles: [{role_id: agent, allowed_lanes: [default]}, {role_id: boss, allowed_lanes: [vip]}]\n")
	set.Lanes = []byte("lanes: [{lane_id: default, allowed_tools: [echo, vault], write: true, runs: implicit}, " +
		"{lane_id: vip, allowed_tools: ['*'], write: true, runs: implicit}]\n")
	set.ToolRegistry = bytes.ReplaceAll(set.ToolRegistry, []byte("allowed_lanes: [default"),
		[]byte("allowed_lanes: [default, vip"))
	_, err = c.PushPolicy(d.Context(), set, all[0].Revision, "echo and vault")
	d.ok(err)
	_, err = c.StartRun(d.Context(), envelope.RunStartRequest{ID: run, Tenant: p.Tenant, Actors: []string{p.Actor}})
	d.ok(err)
}

// implicit makes a call of an actor, and returns the id of the implicit run that it belongs to.
func (d *devDeployment) implicit(actor string) string {
	d.Helper()
	c := d.client(d.crowd[actor])
	_, err := c.Call(d.Context(), clientlib.Call{Tool: "echo", Input: []byte(`"implicit"`)})
	d.ok(err)
	id := ""
	for r, err := range d.operator().Runs(d.Context(), envelope.RunListRequest{Implicit: true}) {
		d.ok(err)
		if r.Implicit && r.Actors[0] == actor { // the last one is that of the policy in force
			id = r.ID
		}
	}
	if id == "" {
		d.Fatalf("%s has no implicit run", actor)
	}
	return id
}
