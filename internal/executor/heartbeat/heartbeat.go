package heartbeat

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Heartbeat is the stored form of a heartbeat.
type Heartbeat struct {
	Form     int    `json:"form"`
	Pool     string `json:"pool"`
	Instance string `json:"instance"`
	// Overflow is about the queues of the last step, and Steps about those between the first and the last. Builds that
	// know only two steps send no Steps.
	Overflow OverflowSupport `json:"behind,omitzero"`
	Steps    OverflowSupport `json:"steps,omitzero"`

	Definitions Definitions `json:"definitions,omitzero"`
	// Builds are the builds that the executor has. It is nil in heartbeats of older builds.
	Builds Builds `json:"builds,omitzero"`
	// MoreBuilds means that Builds lacks the tools with ids after its last one.
	MoreBuilds bool `json:"more_builds,omitzero"`
	// Missing are the builds of tools that the executor was handed work for and does not have. Older builds send none.
	Missing []MissingBuild `json:"missing,omitzero"`
	// Unrunnable are tools of which no run could start at the executor, at most [MaxUnrunnable]. Older builds send none.
	Unrunnable []UnrunnableTool `json:"unrunnable,omitzero"`
	// RunsReach is the power of the executor's runs over other processes of its host. Older builds send none.
	RunsReach supervisor.Reach `json:"runs_reach,omitzero"`
	// Load is zero in heartbeats of older builds.
	Load Load `json:"load,omitzero"`
}

// Load describes an executor and what it runs.
type Load struct {
	Version string    `json:"version,omitzero"` // of Toolbus
	Host    string    `json:"host,omitzero"`    // name of its machine; Host and PID are zero in older builds
	PID     int       `json:"pid,omitzero"`     // of its process
	Slots   int       `json:"slots"`            // number of calls that it runs at a time
	Running int       `json:"running"`          // number of calls in progress
	Started time.Time `json:"started"`          // bus time
}

// UnrunnableTool is a tool of which no run could start at the executor, with the reason.
type UnrunnableTool struct {
	Tool string `json:"tool"`
	Why  string `json:"why"` // at most [maxWhy] bytes
}

// Bounds of the unrunnable tools in a heartbeat. They keep heartbeats small.
const (
	MaxUnrunnable = 32
	maxWhy        = 256
)

// bound returns the first of the tools, with short reasons.
func bound(all []UnrunnableTool) (some []UnrunnableTool) {
	for _, u := range all[:min(len(all), MaxUnrunnable)] {
		some = append(some, UnrunnableTool{u.Tool, strings.ToValidUTF8(u.Why[:min(len(u.Why), maxWhy)], "")})
	}
	return some
}

// OverflowSupport tells whether an executor pulls the queues of some steps, see [subjects.Queue].
type OverflowSupport string

// Values of OverflowSupport.
const (
	PullsMainOnly OverflowSupport = ""       // it does not pull them
	PullsUnknown  OverflowSupport = "untold" // it does not know yet
	PullsAll      OverflowSupport = "pulled"
)

// Pulls returns how many of the steps the executor pulls: all 4, the first and the last, or only the first. known is
// false if it does not know yet.
func (b Heartbeat) Pulls() (steps int, known bool) {
	switch {
	case b.Overflow == PullsUnknown || b.Steps == PullsUnknown:
		return 0, false
	case b.Overflow != PullsAll:
		return 1, true
	case b.Steps != PullsAll:
		return 2, true
	}
	return subjects.Steps, true
}

// decodeBeat decodes a heartbeat. The error is a [format.Error] if an executor of an incompatible build sent it. With
// any other error the message is not a heartbeat.
func decodeBeat(data []byte) (b Heartbeat, err error) {
	if err := json.Unmarshal(data, &b); err != nil {
		return b, err
	}
	return b, format.Entry.Check(b.Form)
}
