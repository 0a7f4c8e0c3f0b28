package model

import (
	"github.com/seed-018f16cc/toolbus/call"
	"strings"
	"testing"
	"time"
)

func TestRet(t *testing.T) {
	for _, cl := range []call.Class{call.Idempotent, call.SideEffectful} {
		for _, r := range []Rule{0, OutliveRequest, OutliveEarlier, CarryOutcomes} {
			for _, keep := range []time.Duration{10 * time.Minute, 24 * time.Hour} {
				b := time.Now()
				x := ExploreRetention(Retention{Class: cl, Callers: 3, Waits: []time.Duration{time.Minute}, Passes: 4, Timeout: []time.Duration{time.Minute, 3 * time.Hour}, Keep: keep, Off: r})
				t.Logf("%s %x %v: %d states depth %d %v %s\n%s", cl, r, keep, x.States, x.Depth, time.Since(b), x.Bad, strings.Join(x.Trace, "\n"))
			}
		}
	}
}
