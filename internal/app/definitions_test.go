package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// An executor reports the builds of the tools of its pool, also the replaced ones that it can still run.
func TestExecutorReportsBuilds(t *testing.T) {
	set := tool.NewSet(&tool.Manifest{ToolID: "a", Pool: "p", Digest: "sha256:1"},
		&tool.Manifest{ToolID: "b", Pool: "q", Digest: "sha256:2"})
	set.Replace(&tool.Manifest{ToolID: "a", Pool: "p", Digest: "sha256:3"})
	e := &executorProcess{options: ExecutorOptions{Tools: set, Pool: "p"}}
	if diff := cmp.Diff(heartbeat.Builds{"a": {"sha256:3", "sha256:1"}}, e.builds()); diff != "" {
		t.Error(diff)
	}
}
