package admin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Doctor passes on that a dispatcher can read the log and not write it, and does not say of one that
// hangs that there is none.
func TestDiagnoseDispatchers(t *testing.T) {
	f := bustest.Start(t)
	find := func(name string) admin.Check {
		for _, c := range admin.Diagnose(t.Context(), f.Srv.URL, toolbus.ClientOptions{}) {
			if c.Name == name {
				return c
			}
		}
		return admin.Check{}
	}
	f.FreezeDispatchers()
	if c := find("dispatchers"); c.Status != admin.CheckFailed || !strings.Contains(c.Fix, "does not answer") {
		t.Errorf("a dispatcher that hangs: %+v", c)
	}
	f.Serve(rpc.Endpoint{Op: subjects.OpDescribe,
		Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) {
			return envelope.DescribeResponse{NowUnixMS: time.Now().UnixMilli(), SilentMS: 9000,
				Offered: map[string][]string{"shop": {"sell", "buy"}},
				Tools:   []envelope.ToolInfo{{ToolID: "a.x", Differs: true}}}, nil
		}})
	if c := find("approvals"); c.Status != admin.CheckWarning || !strings.Contains(c.Says, "some executors") ||
		!strings.HasSuffix(c.Fix, "`toolbus tools approve a.x`") {
		t.Errorf("changed for some executors: %+v", c)
	}
	if c := find("new tools"); c.Status != admin.CheckOK || !strings.HasSuffix(c.Says, "shop: sell, buy") {
		t.Errorf("tools that were not imported: %+v", c)
	}
	if c := find("call log"); c.Status != admin.CheckFailed || !strings.Contains(c.Says, "9s") || c.Fix == "" {
		t.Errorf("no write is taken: %+v", c)
	}
}

func TestDiagnose(t *testing.T) {
	f := bustest.Start(t)
	failed := map[string]bool{}
	for _, c := range admin.Diagnose(t.Context(), f.Srv.URL, toolbus.ClientOptions{}) {
		failed[c.Name] = c.Status == admin.CheckFailed
		if c.Status == admin.CheckFailed && c.Fix == "" {
			t.Errorf("%s says no fix", c.Name)
		}
	}
	if failed["server"] || failed[subjects.Partition(0).Stream()] || !failed["executors"] || !failed["dispatchers"] {
		t.Errorf("failed: %v", failed)
	}
	if checks := admin.Diagnose(t.Context(), "nats://127.0.0.1:1", toolbus.ClientOptions{}); len(checks) != 1 ||
		checks[0].Status != admin.CheckFailed {
		t.Errorf("%+v", checks)
	}
}

// Doctor says what it may not look at, and whom to run it as; not that JetStream is off.
func TestDiagnoseRestricted(t *testing.T) {
	for name, test := range map[string]struct {
		subscribe string
		says      map[string]string // by check
	}{
		"agent": {"tb.ans.>", map[string]string{
			"jetstream": "may not ask", "dispatchers": "answering", "tools": "dispatchers: 1, each with the same 0 tools",
			"authentication": "no secrets at d1", // builds before do not say so, and answer without a token
		}},
		"no inbox": {"elsewhere.>", map[string]string{"answers": "receive answers"}},
	} {
		t.Run(name, func(t *testing.T) {
			url := strings.Replace(bustest.Restricted(t, test.subscribe).URL, "nats://", "nats://agent:secret@", 1)
			checks := map[string]admin.Check{}
			for _, c := range admin.Diagnose(t.Context(), url, toolbus.ClientOptions{}) {
				checks[c.Name] = c
				if strings.Contains(c.Says+c.Fix, "nabled") || strings.Contains(c.Says, "deadline") {
					t.Errorf("%+v", c)
				}
			}
			for check, says := range test.says {
				if !strings.Contains(checks[check].Says, says) {
					t.Errorf("%s: %+v, want %q", check, checks[check], says)
				}
				if c := checks[check]; c.Status == admin.CheckFailed && c.Fix == "" {
					t.Errorf("%+v has no fix", c)
				}
			}
		})
	}
}

// Dispatchers that have loaded different tools answer calls now one way and now the other; doctor names the tools.
func TestDiagnoseTools(t *testing.T) {
	f := bustest.Start(t)
	first := map[string]string{"echo": "1.0.0 (a)", "old": "1.0.0 (b)", "same": "1.0.0 (c)"}
	f.Serve(bustest.Describing("echo"), bustest.Stocked("d1", first))
	tools := func() admin.Check { return found(t, f, "tools") }
	if c := tools(); c.Status != admin.CheckOK ||
		!strings.Contains(c.Says, "dispatchers: 1, each with the same 3 tools") {
		t.Errorf("one dispatcher: %+v", c)
	}
	f.Serve(bustest.Describing("echo"), bustest.Stocked("d2", map[string]string{"echo": "1.0.1 (d)", "same": "1.0.0 (c)"}))
	const differ = "2 dispatchers have loaded different tools: echo is 1.0.0 (a) at d1 and 1.0.1 (d) at d2; " +
		"old is 1.0.0 (b) at d1 and missing at d2"
	if c := tools(); c.Status != admin.CheckFailed || c.Says != differ || c.Fix == "" {
		t.Errorf("two: %+v", c)
	}
}

// found returns the row of a name, or none.
func found(t *testing.T, f *bustest.Bus, name string) (c admin.Check) {
	t.Helper()
	for _, check := range admin.Diagnose(t.Context(), f.Srv.URL, toolbus.ClientOptions{}) {
		if check.Name == name {
			c = check
		}
	}
	return c
}

// Doctor asks each dispatcher for the settings that all must have alike, and names who lacks one.
func TestDiagnoseSettings(t *testing.T) {
	f := bustest.Start(t)
	with := func(instance string, settings map[string]string) rpc.Endpoint {
		return bustest.Listing(envelope.Inventory{Instance: instance, Settings: settings})
	}
	f.Serve(bustest.Describing("echo"), bustest.Stocked("d0", nil)) // of a build that does not tell
	if c := found(t, f, "settings"); c.Name != "" {
		t.Errorf("none is told: %+v", c)
	}
	f.Serve(bustest.Describing("echo"), with("d1", map[string]string{"--lease": "5s", "--sync": "always"}))
	if c := found(t, f, "settings"); c.Status != admin.CheckOK ||
		!strings.HasPrefix(c.Says, "dispatchers: 1, each with --sync always") {
		t.Errorf("one dispatcher: %+v", c)
	}
	f.Serve(bustest.Describing("echo"), with("d2", map[string]string{"--lease": "5s", "--sync": "interval"}))
	const differ = "dispatchers have different ones: --sync is always at d1 and interval at d2"
	if c := found(t, f, "settings"); c.Status != admin.CheckFailed || c.Says != differ || c.Fix == "" {
		t.Errorf("two: %+v", c)
	}
}
