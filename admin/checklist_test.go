package admin_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// describing is a dispatcher whose tools can be changed by the test.
type describing struct {
	*bustest.Bus
	tools []envelope.ToolInfo
}

func newDescribing(t *testing.T) *describing {
	t.Helper()
	schema := jsontext.Value(`{"type":"object"}`)
	d := &describing{bustest.Start(t), []envelope.ToolInfo{{
		ToolID: "echo", Version: "1.2.3", Digest: "sha256:d", TimeoutDefaultMS: 30_000, TimeoutMaxMS: 60_000,
		Functions: map[string]envelope.FunctionInfo{"run": {Request: schema, Response: schema}},
	}}}
	d.Serve(rpc.Endpoint{Op: subjects.OpDescribe,
		Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) {
			return envelope.DescribeResponse{NowUnixMS: time.Now().UnixMilli(), Tools: d.tools}, nil
		}})
	return d
}

// contract returns the checks of the contract by name, and their names in order.
func (d *describing) contract() (checks map[string]admin.Check, names []string) {
	d.T.Helper()
	checks = map[string]admin.Check{}
	for _, c := range admin.Diagnose(d.T.Context(), d.Srv.URL, toolbus.ClientOptions{}) {
		if name, ok := strings.CutPrefix(c.Name, "contract: "); ok {
			checks[name], names = c, append(names, name)
		}
	}
	return checks, names
}

// Doctor has a check for each item of the checklists of the contract, in its words and order.
func TestChecklistIsThatOfTheContract(t *testing.T) {
	text, err := os.ReadFile("../docs/tool_contract.md")
	if err != nil {
		t.Fatal(err)
	}
	var items []string
	for _, m := range regexp.MustCompile(`(?m)^\* \[ \] (.*)\.$`).FindAllStringSubmatch(string(text), -1) {
		items = append(items, m[1])
	}
	checks, names := newDescribing(t).contract()
	if len(names) != len(items) || len(items) != 17 {
		t.Fatalf("%d checks of %d items", len(names), len(items))
	}
	open := []string{"sandbox", "health", "secrets", "telemetry", "evidence", "network", "back-off", "side effects",
		"emitted"}
	for i, name := range names {
		c := checks[name]
		if !strings.HasPrefix(c.Says, items[i]+": ") {
			t.Errorf("%s says %q of the item %q", name, c.Says, items[i])
		}
		want := admin.CheckOK
		if slices.Contains(open, name) {
			want = "open"
		}
		says := want == admin.CheckOK || name == "back-off" || strings.Contains(c.Says, "not enforced yet")
		if c.Status != want || !says {
			t.Errorf("%+v, want %s", c, want)
		}
	}
}

// Doctor names the fields of manifests that have no effect yet.
func TestDeclaredOnlyFields(t *testing.T) {
	d := newDescribing(t)
	d.tools = append(d.tools, d.tools[0])
	d.tools[0].DeclaredOnly = []string{"slo", "limits.memory_mb_max"}
	d.tools[1].ToolID, d.tools[1].DeclaredOnly = "other", []string{"slo"}
	const want = "do not rely on these fields of manifests, which have no effect yet: limits.memory_mb_max " +
		"(1 tool), slo (2 tools)"
	for _, c := range admin.Diagnose(t.Context(), d.Srv.URL, toolbus.ClientOptions{}) {
		if c.Name == "declared only" && c.Says == want && c.Status == "open" {
			return
		}
	}
	t.Error("doctor does not say: " + want)
}

// Doctor finds items of the contract that a deployment does not keep.
func TestChecklistFails(t *testing.T) {
	for name, c := range map[string]struct {
		hurt   func(*envelope.ToolInfo)
		says   string
		checks []string
	}{
		"no digest": {func(t *envelope.ToolInfo) { t.Digest = "" }, "echo", []string{"versions"}},
		"a range":   {func(t *envelope.ToolInfo) { t.Version = "1.x" }, "echo", []string{"versions"}},
		"default beyond": {func(t *envelope.ToolInfo) { t.TimeoutMaxMS = 1000 }, "30000 ms, at most 1000 ms",
			[]string{"limits"}},
		"no schema": {func(t *envelope.ToolInfo) {
			t.Functions = map[string]envelope.FunctionInfo{"run": {Request: jsontext.Value(`{"type":"objekt"}`)}}
		}, "echo: ", []string{"inputs", "outputs"}},
	} {
		d := newDescribing(t)
		c.hurt(&d.tools[0])
		checks, names := d.contract()
		for _, check := range names {
			failed := checks[check].Status == admin.CheckFailed
			if failed != slices.Contains(c.checks, check) || failed && checks[check].Fix == "" {
				t.Errorf("%s: %+v", name, checks[check])
			}
		}
		if got := checks[c.checks[0]]; !strings.Contains(got.Says, c.says) {
			t.Errorf("%s: %+v does not say %q", name, got, c.says)
		}
	}
}

// Without tools there is nothing that doctor could draft a request for.
func TestChecklistWithoutTools(t *testing.T) {
	d := newDescribing(t)
	d.tools = nil
	checks, _ := d.contract()
	if checks["manifests"].Status != "open" || checks["keys"].Status != "open" {
		t.Errorf("%+v", checks)
	}
}

// Doctor looks at the status of each of the newest audit records.
func TestChecklistOfStatuses(t *testing.T) {
	d := newDescribing(t)
	record := func(status envelope.Status) {
		t.Helper()
		lines, err := audit.SplitSegments([]audit.Record{{Event: audit.ToolExecuted, Tenant: "t", CallID: "c",
			Timestamp: time.Now().UTC(), Status: status}}, audit.MaxSegment)
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := lines[0].Seal(audit.Segment{Source: audit.SourceProcess, K: 1, N: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.JS.Publish(t.Context(), subjects.JournalSubject("p", "t"), data); err != nil {
			t.Fatal(err)
		}
	}
	record(envelope.Success)
	if checks, _ := d.contract(); checks["statuses"].Status != admin.CheckOK ||
		!strings.Contains(checks["statuses"].Says, ": 1 of the newest") {
		t.Errorf("%+v", checks["statuses"])
	}
	record("success_prep")
	if checks, _ := d.contract(); checks["statuses"].Status != admin.CheckFailed ||
		!strings.Contains(checks["statuses"].Says, "success_prep") {
		t.Errorf("%+v", checks["statuses"])
	}
}
