package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// A table leaves out what is empty in all rows, and prints below a row what has no room beside it.
func TestTable(t *testing.T) {
	long := strings.Repeat("word ", 20)
	all := table{header: []string{"N", "TENANT", "TOOL", "REASON"}}
	all.add("1", "", "pay", long)
	all.add("22", "", "", "")
	var out strings.Builder
	if err := all.write(&out); err != nil {
		t.Fatal(err)
	}
	want := "N   TOOL\n1   pay\n    reason " + strings.TrimSpace(strings.Repeat("word ", 14)) + "\n    " +
		strings.TrimSpace(strings.Repeat("word ", 6)) + "\n22  -\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	if err := (&table{header: all.header}).write(&out); err != nil || out.Len() > 0 {
		t.Errorf("without rows: %v, %q", err, out.String())
	}
}

// The columns of calls that have ended are the same with any reference, and each attempt has its number.
func TestEndedColumns(t *testing.T) {
	first := endedCall{Ref: "play.k1", Status: envelope.Success, Attempt: 1}
	for _, ref := range []string{"play.k1", strings.Repeat("long", 15)} {
		var out strings.Builder
		second := endedCall{Ref: ref, Status: envelope.Success, Attempt: 2}
		if err := writeEnded(&out, []endedCall{first, second}, shownWidth); err != nil {
			t.Fatal(err)
		}
		said := out.String()
		if !strings.HasPrefix(said, "ENDED                 OUTCOME  ATTEMPT") || strings.Count(said, "Z  success  2") != 1 ||
			strings.Count(said, "Z  success  1") != 1 || !strings.Contains(said, ref) {
			t.Error(said)
		}
	}
}

// The tables of operators fit into a terminal, with names as long as they get.
func TestTablesFit(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	const ref = "mcp_3a_3agithub_3a_3aissues_2ecreate.0kd3a7q0000000000000000001a2b3c4d"
	const actor, by, reason = "agent://nightly/crawler", "default/operator://on-call-of-the-week", "see INC-7"
	digest := strings.Repeat("d", 64)
	versions := envelope.PolicyVersions{Roles: digest, Lanes: digest, ToolRegistry: digest}
	segment := envelope.RunSegment{Start: at, State: "failed", Tool: "mcp::github::issues.create", Attempts: 1,
		Code: envelope.CodeTimeoutUnknown, Ref: ref}
	run := envelope.Run{ID: "nightly-42", Tenant: "default", State: "active", Start: at, By: by, Policies: versions,
		Actors: []string{actor, actor + "/a", actor + "/b", actor + "/c"}, Lanes: []string{"day", "night"}}
	var out strings.Builder
	for what, err := range map[string]error{
		"history": writePolicyVersions(&out, []envelope.PolicyVersion{
			{Revision: 12345, At: at, Versions: versions, By: by, Reason: reason}}),
		"credentials": writeCredentials(&out, []admin.Credential{{Family: "0a1b2c3d4e5f60718293a4b5c6d7e8f9", Role: "agent",
			Tenant: "default", Actor: actor, Scopes: []string{"pay:write", "pay:read"}, Until: at, Lane: "night"}}),
		"open": writeOpen(&out, []envelope.OpenCall{{Ref: ref, Tool: "mcp::github::issues.create", Actor: actor,
			State: "running", Since: at, Deadline: at}}, shownWidth),
		"ended": writeEnded(&out, []endedCall{{Ended: at, Ref: ref, Actor: actor, Attempt: 2,
			Code: envelope.CodeTimeoutUnknown, Effect: envelope.EffectUnknown, TookMS: new(int64(123456))}}, shownWidth),
		"run": shownRun{run, []envelope.RunSegment{segment}}.write(&out),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for row := range strings.Lines(out.String()) {
		if utf8.RuneCountInString(strings.TrimSuffix(row, "\n")) > shownWidth {
			t.Errorf("too wide: %s", row)
		}
	}
	for _, part := range []string{ref, by, reason, actor + "/c", "R-TIMEOUT-002 unknown 2m3s", "pay:read", "lane night"} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), part) {
			t.Errorf("no %q in\n%s", part, out.String())
		}
	}
	if strings.Contains(out.String(), "TENANT") {
		t.Errorf("a column of the default tenant:\n%s", out.String())
	}
}
