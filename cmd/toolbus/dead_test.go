package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// deadRequest returns a request with all members that a replay keeps.
func deadRequest(input string) envelope.Request {
	return envelope.Request{
		CallID: "00000000-0000-4000-8000-000000000001", ToolID: "play", ToolVersion: "^1", Fn: "play",
		Input: jsontext.Value(input),
		Context: envelope.RequestContext{
			ActorID: "agent://original", TraceID: "4bf92f35-77b3-4da6-a3ce-929d0e0e4736", Timezone: "Europe/Vienna",
			Env:       "staging",
			SessionID: "s1", RoleID: "role1", RunID: "run1", LaneID: "lane1", Scope: map[string]string{"repo": "r"},
		},
		Constraints: envelope.Constraints{
			TimeoutMS: 20_000, DeadlineUnixMS: 1, IdempotencyKey: "used-0123456789abcdef",
			IdempotencyScope: envelope.ScopeSession,
			Priority:         envelope.PriorityHigh, MemoryMBLimit: 64, RetryPolicy: &envelope.RetryPolicy{MaxAttempts: 1},
			CacheKey: "c1", Budget: jsontext.Value(`{"eur":1}`), NetAllowlist: []string{"example.org"},
		},
		Provenance: jsontext.Value(`{"parent":"p1"}`),
	}
}

// bury stores the request as a dead letter of tenant acme.
func bury(t *testing.T, guest *link.Link, r envelope.Request, inputRef string) {
	t.Helper()
	raw, err := envelope.EncodeRequest(envelope.ContentJSON, &r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := call.RequestBody{Request: raw, InputRef: inputRef}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	_, args, err := envelope.Hashes(&r, r.Input)
	if err != nil {
		t.Fatal(err)
	}
	err = deadletter.Publish(t.Context(), guest.JS, deadletter.Message{
		Time: time.Now(), Cause: envelope.NewError(envelope.CodeLost, ""), Attempt: 1, Body: body,
		State: call.State{
			Pinned: call.Pinned{Tenant: "acme", Pool: "default", Tool: r.ToolID,
				ID: envelope.CallKeyID("acme", &r), ArgsHash: args},
			Attempts: []call.Attempt{{N: 1, Owner: call.Owner{
				CallID: r.CallID, Actor: r.Context.ActorID, Role: r.Context.RoleID, Trace: r.Context.TraceID,
			}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An auditor of all tenants sees the dead letters, and one of its tenant is refused at once.
func TestDeadLettersForAuditors(t *testing.T) {
	s, operator := deployed(t)
	bury(t, s.insider(), deadRequest("7"), "")
	dir := t.TempDir()
	all, one := filepath.Join(dir, "all"), filepath.Join(dir, "one")
	s.must("credentials", "issue", "--role", "auditor", "--actor", "agent://all", "--scope", "audit:all", "--out", all,
		"--credentials", operator)
	s.must("credentials", "issue", "--role", "auditor", "--actor", "agent://one", "--out", one, "--credentials", operator)
	for _, line := range [][]string{{"list"}, {"show", "1"}} {
		args := append([]string{"dead", "--credentials"}, append([]string{all}, line...)...)
		if said := s.must(args...); !strings.Contains(said, "play") {
			t.Errorf("%v: %s", line, said)
		}
		args[2] = one
		if code, _, stderr := s.do(args...); code == 0 || !strings.Contains(stderr, "A-AUTH-FORBIDDEN") {
			t.Errorf("%v: exit %d: %s", line, code, stderr)
		}
	}
}

// requested returns the record of the last request in a tenant.
func requested(t *testing.T, s shell, tenant string) (last audit.Record) {
	t.Helper()
	_, stdout, stderr := s.do("audit", "replay", "--event", "tool_requested", "--json")
	for line := range strings.Lines(stdout) {
		var r audit.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Tenant == tenant {
			last = r
		}
	}
	if last.Ref == "" {
		t.Fatalf("no request of tenant %s: %s%s", tenant, stdout, stderr)
	}
	return last
}

// A dispatcher replays a dead letter for an operator, in the letter's tenant and as its actor. A second replay shows
// the outcome of the first one, unless --again makes another call.
func TestDeadReplay(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	s.allowAs("role1", "lane1")
	guest := s.insider()
	s.must("runs", "start", "run1", "--calls-of", deadRequest("").Context.ActorID, "--tenant", "acme")
	bury(t, guest, deadRequest(`{"say":"again"}`), "")
	replay := func(says string, args ...string) string {
		t.Helper()
		code, stdout, stderr := s.do(append([]string{"dead", "replay", "1"}, args...)...)
		if code != 0 || !strings.Contains(stdout, `"said": "again"`) || !strings.Contains(stderr, says) {
			t.Fatalf("exit %d, it does not say %q: %s%s", code, says, stdout, stderr)
		}
		return requested(t, s, "acme").Ref
	}
	ref := replay("as agent://original in tenant acme: play.")
	r := requested(t, s, "acme")
	if r.Actor != "agent://original" || r.RunID != "run1" || r.RoleID != "role1" || r.LaneID != "lane1" ||
		r.TraceID != deadRequest("{}").Context.TraceID {
		t.Errorf("the new request is not as the old one: %+v", r)
	}
	if again := replay("replayed before"); again != ref {
		t.Errorf("a second replay made the call %s", again)
	}
	other := replay("as agent://original in tenant acme: play.", "--again")
	if other == ref {
		t.Error("--again made no call")
	}
	_, stdout, _ := s.do("dead", "list", "--json")
	var letters []shownLetter
	if err := json.Unmarshal([]byte(stdout), &letters); err != nil || len(letters) != 1 || len(letters[0].Replays) != 2 {
		t.Fatalf("%v: %s", err, stdout)
	}
	for i, want := range []string{ref, other} {
		one := letters[0].Replays[i]
		if one.Ref != want || one.Became() != "success" || one.Actor != "agent://original" || one.Tenant != "acme" ||
			!strings.HasPrefix(one.By, "default/agent://") {
			t.Errorf("replay %d: %+v", i, one)
		}
	}
	if code, stdout, stderr := s.do("dead", "replay", "7"); code != exitTerminal ||
		!strings.Contains(stderr, "dead list") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
}

// The input of a dead letter may be a separate payload.
func TestDeadReplayLargeInput(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	s.allowAs("role1", "lane1")
	guest := s.insider()
	s.must("runs", "start", "run1", "--calls-of", deadRequest("").Context.ActorID, "--tenant", "acme")
	input := `{"say":"xxxxxxxx"` + strings.Repeat(" ", envelope.MaxInline) + `}`
	ref, err := link.OpenPayloads(guest.JS).Put(t.Context(),
		subjects.Owner{Tenant: "acme", Actor: deadRequest("").Context.ActorID}.On("default"), []byte(input))
	if err != nil {
		t.Fatal(err)
	}
	bury(t, guest, deadRequest("null"), ref.String())
	code, stdout, stderr := s.do("dead", "replay", "1")
	if code != 0 || !strings.Contains(stdout, "xxxxxxxx") {
		t.Errorf("exit %d: %.300s%s", code, stdout, stderr)
	}
	gone := deadRequest("null")
	gone.Context.SessionID = "s2"
	ref.SHA256 = strings.Repeat("0", 64)
	bury(t, guest, gone, ref.String())
	if code, _, stderr := s.do("dead", "replay", "2"); code != exitRetryable ||
		!strings.Contains(stderr, string(envelope.CodeInputMissing)) {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// Operators see the dead letters of all tenants, or those of the one that they name.
func TestDeadOfTenants(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	guest := s.insider()
	bury(t, guest, deadRequest(`{}`), "")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"dead list", 0, "acme"},
		{"dead list --tenant acme", 0, "acme"},
		{"dead list --tenant default --json", 0, "[]"},
		{"dead list --json", 0, `"ref": "play.`},
		{"dead show 1 --json", 0, `"ref": "play.`},
		{"dead show 1", 0, "S-TOOL-LOST: The call was lost"},
		{"dead show 1", 0, "agent://original"},
		{"dead show 1 --tenant acme", 0, "agent://original"},
		{"dead show 1 --tenant default", 1, `of "acme"`},
		{"dead show 1abc", exitUsage, "dead list"},
		{"dead show 0", exitUsage, "dead list"},
		{"dead show 2", 1, "dead list"},
	} {
		code, stdout, stderr := s.do(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%s: exit %d, want %d with %q: %s%s", c.args, code, c.code, c.says, stdout, stderr)
		}
	}
}

// A dead letter that was replayed is shown with its replays and their outcomes; others are not.
func TestDeadShowsReplays(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	s.allowAs("role1", "lane1")
	guest := s.insider()
	s.must("runs", "start", "run1", "--calls-of", deadRequest("").Context.ActorID, "--tenant", "acme")
	bury(t, guest, deadRequest(`{"say":"again"}`), "")
	other := deadRequest(`{"say":"never"}`)
	other.Context.SessionID = "s2" // whose key it is
	bury(t, guest, other, "")
	refused := deadRequest(`{"sing":"again"}`)
	refused.Context.SessionID = "s3"
	bury(t, guest, refused, "")
	if _, stdout, stderr := s.do("dead", "list", "--json"); strings.Contains(stdout, "replays") {
		t.Errorf("before: %s%s", stdout, stderr)
	}
	for n, want := range map[string]int{"1": 0, "3": exitInvalid} {
		if code, stdout, stderr := s.do("dead", "replay", n); code != want {
			t.Fatalf("exit %d: %s%s", code, stdout, stderr)
		}
	}
	ref := requested(t, s, "acme").Ref
	for args, says := range map[string]string{
		"dead list": ref, "dead show 1": ": success, as " + ref + " by default/agent://",
		"dead show 3": ": I-REQ-SCHEMA, as ", "dead show 2": `"say": "never"`,
	} {
		_, stdout, stderr := s.do(strings.Fields(args)...)
		if !strings.Contains(stdout, says) || args == "dead show 2" && strings.Contains(stdout, "replay ") {
			t.Errorf("%s does not say %q: %s%s", args, says, stdout, stderr)
		}
	}
}
