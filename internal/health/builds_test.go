package health

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
)

// doctor fails for a tool of which no live executor of its pool has the admitted build, and warns if only some have it.
func TestDiagnoseBuilds(t *testing.T) {
	admitted := envelope.ToolInfo{ToolID: "case.read", Version: "0.2.0", Digest: "sha256:e9e01a64c1f2aaaa", Pool: "p"}
	old := heartbeat.Heartbeat{Pool: "p", Instance: "old", Builds: heartbeat.Builds{"case.read": {"sha256:87f9ca3eb5f0"}}}
	with := heartbeat.Heartbeat{Pool: "p", Instance: "new",
		Builds: heartbeat.Builds{"case.read": {"sha256:0", "sha256:e9e01a64c1f2"}}}
	without := heartbeat.Heartbeat{Pool: "p", Instance: "without", Builds: heartbeat.Builds{}}
	silent := heartbeat.Heartbeat{Pool: "p", Instance: "silent"} // of an older build of Toolbus
	cut := heartbeat.Heartbeat{Pool: "p", Instance: "cut", Builds: heartbeat.Builds{"a": {"b"}}, MoreBuilds: true}
	elsewhere := heartbeat.Heartbeat{Pool: "q", Instance: "elsewhere", Builds: with.Builds}
	planned := admitted
	planned.Status = "planned"
	for name, c := range map[string]struct {
		tool  envelope.ToolInfo
		alive []heartbeat.Heartbeat
		want  envelope.CheckStatus // "": no check
		says  string
	}{
		"all have it":     {admitted, []heartbeat.Heartbeat{with, with}, "", ""},
		"nobody is there": {admitted, nil, "", ""},
		"not called":      {planned, []heartbeat.Heartbeat{old}, "", ""},
		"none has it": {admitted, []heartbeat.Heartbeat{without, old, elsewhere}, envelope.CheckFailed,
			"its build 0.2.0, sha256:e9e01a64c1f2, which dispatchers admit; they have sha256:87f9ca3eb5f0: " +
				"p/old; p/without"},
		"none has any": {admitted, []heartbeat.Heartbeat{without}, envelope.CheckFailed,
			"they have no build of it: p/without"},
		"one has it": {admitted, []heartbeat.Heartbeat{old, with}, envelope.CheckWarning,
			"not all executors of pool p have its build 0.2.0, sha256:e9e01a64c1f2, which dispatchers admit; " +
				"without it: p/old"},
		"one may have it": {admitted, []heartbeat.Heartbeat{old, silent}, envelope.CheckWarning, "it: p/old"},
		"one has no room": {admitted, []heartbeat.Heartbeat{old, cut}, envelope.CheckWarning, "it: p/old"},
	} {
		checks := unbuilt(c.alive, []envelope.ToolInfo{c.tool})
		if c.want == "" && len(checks) == 0 {
			continue
		}
		if len(checks) != 1 || checks[0].Status != c.want || checks[0].Name != "tool case.read" ||
			!strings.HasSuffix(checks[0].Says, c.says) || !strings.Contains(checks[0].Fix, "docs/operations.md, upgrade") {
			t.Errorf("%s: %+v", name, checks)
		}
	}
}
