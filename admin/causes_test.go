package admin

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// On a full disk the checks that name it come first, and the fixes of its consequences point there.
func TestCausesFirst(t *testing.T) {
	all := func(writes Check) []Check {
		return []Check{envelope.Well("server", "1"), envelope.Well("KV_calls", "1"),
			envelope.Failed("executors", "none", "start one"), envelope.Failed("pool default", "none", "start one"),
			envelope.Failed("settings", "differ", "start all"), writes}
	}
	var names, fixes []string
	for _, c := range causesFirst(all(envelope.Failed("writes", "no space left on device", "make room"))) {
		names, fixes = append(names, c.Name), append(fixes, c.Fix)
	}
	if got := strings.Join(names, ", "); got != "server, writes, KV_calls, executors, pool default, settings" {
		t.Error(got)
	}
	for i, want := range []string{"", "make room", "", `first mend "writes"`, `first mend "writes"`, "start all"} {
		if !strings.HasPrefix(fixes[i], want) || want == "" && fixes[i] != "" {
			t.Errorf("%s: fix %q", names[i], fixes[i])
		}
	}
	if c := causesFirst(all(envelope.Well("writes", "servers write")))[2]; c.Name != "executors" || c.Fix != "start one" {
		t.Errorf("without a cause: %+v", c)
	}
}
