package mcp_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// shifts is a policy in which the role agent may call whoami, and the role other some tools.
func shifts(other string) admin.Policy {
	entry := func(id string) string {
		return "  - {tool_name: " + id + ", description: d, enabled: true, idempotent: true, timeout_default_ms: 1000, " +
			"allowed_lanes: [default, others], required_scope_keys: [], prohibited_flags: []}\n"
	}
	return admin.Policy{
		Roles: []byte("roles: [{role_id: agent, allowed_lanes: [default]}, {role_id: other, allowed_lanes: [others]}]"),
		Lanes: []byte("lanes: [{lane_id: default, allowed_tools: [whoami], runs: implicit}, " +
			"{lane_id: others, runs: implicit, allowed_tools: [" + other +
			"]}]"),
		ToolRegistry: []byte("tools:\n" + entry("sleep") + entry("whoami")),
	}
}

// lists waits until a client lists these tools and no other.
func lists(t *testing.T, c *sdk.ClientSession, want ...string) {
	t.Helper()
	for begun := time.Now(); ; {
		has, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, one := range has.Tools {
			names = append(names, one.Name)
		}
		if slices.Equal(names, want) {
			return
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("it lists %v, want %v", names, want)
		}
	}
}

// refusal returns the error of a call without the name of the tool.
func refusal(t *testing.T, c *sdk.ClientSession, name string) string {
	t.Helper()
	_, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: map[string]any{}})
	if err == nil {
		t.Fatalf("%s was called", name)
	}
	return strings.ReplaceAll(err.Error(), name, "NAME")
}

// operator returns an operator of the deployment.
func (w *walled) operator() *admin.Client {
	w.t.Helper()
	w.token("operator", "operator://o", auth.Operator, "")
	c, err := admin.Connect(w.t.Context(), w.url, admin.Options{CredentialsFile: w.Credentials("operator")})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// deniedByName checks that the call of a name that ann does not see is on record as denied, with the true reason.
func deniedByName(t *testing.T, operator *admin.Client, name, rule string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	f := admin.AuditFilter{Tool: name, Event: "tool_denied", Follow: true}
	for r, err := range operator.AuditRecords(ctx, f) {
		if err != nil || r.Actor != "agent://ann" || r.ArgumentsHash != envelope.ArgumentsHash([]byte("{}")) ||
			!strings.Contains(string(r.JSON), rule) {
			t.Errorf("%s: %s, %v, want %s", name, r.JSON, err, rule)
		}
		return
	}
	t.Errorf("%s: no denial on record", name)
}

// A client lists only the tools that its caller could call. Other tools do not exist for it, although other callers
// have listed them. A push notifies the clients whose list it changes.
func TestPolicyOfCallers(t *testing.T) {
	tools, _ := echoing(t)
	w := wall(t, tools)
	operator := w.operator()
	before, err := operator.PolicyHistory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	revision, err := operator.PushPolicy(t.Context(), shifts("sleep"), before[0].Revision, "")
	if err != nil {
		t.Fatal(err)
	}
	door := w.server(mcp.Options{Every: 20 * time.Millisecond})
	s := open(t, door)
	bob := auth.Principal{Actor: "agent://bob", Role: auth.Agent, RoleIDs: []string{"other"}, Lane: "others"}
	if err := w.Issue("bob", "default", bob, time.Hour); err != nil {
		t.Fatal(err)
	}
	ann := as(t, s, protocols[0], w.token("ann", "agent://ann", auth.Agent, ""))
	told := make(chan struct{}, 1000)
	other := asWith(t, s, protocols[0], w.read("bob"), &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { told <- struct{}{} },
	})
	lists(t, ann, "whoami")
	lists(t, other, "sleep")
	lists(t, ann, "whoami")
	if hidden, unknown := refusal(t, ann, "sleep"), refusal(t, ann, "zzzzz"); hidden != unknown {
		t.Errorf("hidden:  %s\nunknown: %s", hidden, unknown)
	}
	deniedByName(t, operator, "sleep", `"rule":"lanes[default].allowed_tools"`)
	deniedByName(t, operator, "zzzzz", `"rule":"registered"`)
	watching := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() { defer close(watching); door.Watch(ctx) }()
	defer func() { stop(); <-watching }()
	lists(t, other, "sleep")
	if _, err := operator.PushPolicy(t.Context(), shifts("whoami"), revision, ""); err != nil {
		t.Fatal(err)
	}
	<-told
	if hidden, unknown := refusal(t, other, "sleep"), refusal(t, other, "zzzzz"); hidden != unknown {
		t.Errorf("hidden by now: %s\nunknown:       %s", hidden, unknown)
	}
	lists(t, other, "whoami")
}

// A client names the role and the scope of its call in _meta, or in headers, or the gateway does.
func TestRoleAndScope(t *testing.T) {
	tools, _ := echoing(t)
	w := wall(t, tools)
	operator := w.operator()
	history, err := operator.PolicyHistory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set, revision := shifts("sleep"), uint64(0)
	if len(history) > 0 {
		revision = history[0].Revision
	}
	set.Lanes = []byte("lanes: [{lane_id: default, allowed_tools: [whoami], required_scope_keys: [case_id], " +
		"runs: implicit}, {lane_id: others, allowed_tools: [sleep]}]")
	if _, err := operator.PushPolicy(t.Context(), set, revision, ""); err != nil {
		t.Fatal(err)
	}
	both := auth.Principal{Actor: "agent://bob", Role: auth.Agent, RoleIDs: []string{"agent", "other"}}
	if err := w.Issue("bob", "default", both, time.Hour); err != nil {
		t.Fatal(err)
	}
	s := open(t, w.server(mcp.Options{}))
	for _, protocol := range protocols {
		bob := as(t, s, protocol, w.read("bob"))
		for want, meta := range map[string]sdk.Meta{
			"A-AUTH-SCOPE":           {envelope.MetaScope: map[string]any{"case_id": "7"}},
			"P-PRECOND-SCOPE_KEY":    {envelope.MetaRoleID: "agent", envelope.MetaIdempotencyKey: protocol + "-another"},
			`{"text":"agent://bob"}`: {envelope.MetaRoleID: "agent", envelope.MetaScope: map[string]any{"case_id": "7"}},
		} {
			res := callNamed(t, bob, "whoami", `{}`, meta)
			if code, _ := res.Meta[envelope.MetaCode].(string); code != want && words(res) != want {
				t.Errorf("%v: %q %s, want %s", meta, code, words(res), want)
			}
		}
		for _, odd := range []sdk.Meta{
			{envelope.MetaRoleID: 7}, {envelope.MetaRoleID: ""}, {envelope.MetaScope: "x"},
			{envelope.MetaScope: map[string]any{"case_id": 7}},
		} {
			_, err := bob.CallTool(t.Context(), &sdk.CallToolParams{Name: "whoami", Arguments: struct{}{}, Meta: odd})
			wantCode(t, err, -32602)
		}
	}
	named := open(t, w.server(mcp.Options{
		Role: "agent", Lane: "default", Scope: map[string]string{"case_id": "7"},
	}))
	for _, c := range []struct {
		at          *httptest.Server
		headers     http.Header
		meta, wants string
	}{
		{s, http.Header{"Toolbus-Role": {"agent"}, "Toolbus-Scope": {"case_id=7"}}, "", "agent://bob"},
		{s, http.Header{"Toolbus-Role": {"agent"}, "Toolbus-Scope": {"a=b, case_id=7=7"}}, "", "agent://bob"},
		{s, http.Header{"Toolbus-Role": {"agent"}}, "", "P-PRECOND-SCOPE_KEY"},
		{s, http.Header{"Toolbus-Role": {"agent"}, "Toolbus-Lane": {"others"}}, "", "RUN_UNKNOWN"},
		{s, http.Header{"Toolbus-Role": {"agent"}, "Toolbus-Scope": {"case_id"}}, "", "-32602"},
		{
			s, http.Header{"Toolbus-Role": {"other"}, "Toolbus-Scope": {"case_id=7"}},
			`"io.toolbus/role_id":"agent",`, "agent://bob",
		},
		{named, http.Header{}, "", "agent://bob"},
		{named, http.Header{"Toolbus-Lane": {"others"}}, "", "RUN_UNKNOWN"},
	} {
		body, header := modern("9", "whoami", "{}", c.meta)
		maps.Copy(header, c.headers)
		header.Set("Authorization", "Bearer "+w.read("bob"))
		if _, answer := post(t, c.at.URL, body, header); !strings.Contains(answer, c.wants) {
			t.Errorf("%v: %s", c.headers, answer)
		}
	}
}
