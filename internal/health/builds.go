package health

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
)

// unbuilt returns a failure for each tool of which no executor has the build that a dispatcher has loaded, and a
// warning for each of which only some have it. Calls run as no other build than the one that was admitted.
func unbuilt(alive []heartbeat.Heartbeat, tools []envelope.ToolInfo) (checks []envelope.Check) {
	for _, t := range tools {
		if t.Digest == "" || t.Status == "planned" || t.Status == "disabled" { // of an older build, or not called
			continue
		}
		some, lacking, instead := false, []string{}, []string{}
		for _, b := range alive {
			has, known := b.HasBuild(t.ToolID, call.ShortDigest(t.Digest))
			switch {
			case b.Pool != t.Pool:
			case has || !known: // an executor of an older build may have it
				some = true
			default:
				lacking = append(lacking, whereabouts(b))
				instead = append(instead, b.Builds[t.ToolID]...)
			}
		}
		if len(lacking) > 0 {
			slices.Sort(lacking)
			slices.Sort(instead)
			checks = append(checks, lackedBuild(t, some, lacking, slices.Compact(instead)))
		}
	}
	return checks
}

// lackedBuild returns the check of a tool whose build the executors lacking do not have, but others of the pool may.
func lackedBuild(t envelope.ToolInfo, others bool, lacking, instead []string) envelope.Check {
	build := fmt.Sprintf("its build %s, %s, which dispatchers admit", t.Version, call.ShortDigest(t.Digest))
	if others {
		return envelope.Doubtful("tool "+t.ToolID, fmt.Sprintf("not all executors of pool %s have %s; without it: %s",
			t.Pool, build, some(lacking)), "during a rollout this is as it should be: go on as docs/operations.md, upgrade, "+
			"says; otherwise start all executors of the pool with the folders of the dispatchers")
	}
	has := "no build of it"
	if len(instead) > 0 {
		has = strings.Join(instead, ", ")
	}
	return envelope.Failed("tool "+t.ToolID, fmt.Sprintf("no call of it can run: no live executor of pool %s has %s; "+
		"they have %s: %s", t.Pool, build, has, some(lacking)), "start executors of the pool and dispatchers with the "+
		"same folder of the tool: executors first, see docs/operations.md, upgrade")
}
