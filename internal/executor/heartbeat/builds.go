package heartbeat

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Builds are the digests of the builds that an executor has of the tools of its pool, by tool id, as call.ShortDigest
// returns them.
type Builds map[string][]string

// maxBuildBytes is the largest size of the builds in a heartbeat, roughly. It has room for about 100 tools, and keeps
// the bucket small.
const maxBuildBytes = 4 << 10

// bounded returns the builds of the first tools, and whether there are more.
func (b Builds) bounded() (some Builds, more bool) {
	some, room := Builds{}, maxBuildBytes
	for _, tool := range slices.Sorted(maps.Keys(b)) {
		if room -= len(tool) + len(strings.Join(b[tool], `","`)) + len(`"":[""],`); room < 0 {
			return some, true
		}
		some[tool] = b[tool]
	}
	return some, false
}

// HasBuild reports whether the executor of the heartbeat has a build of a tool, named by its short digest. known is
// false if the heartbeat does not say so.
func (b Heartbeat) HasBuild(tool, short string) (has, known bool) {
	builds, listed := b.Builds[tool]
	return slices.Contains(builds, short), listed || b.Builds != nil && !b.MoreBuilds
}

// MissingBuild is a build of a tool that the executor was handed work for and does not have. Build is the digest of the
// admitted build. Has is that of the build that the executor has instead, or "" if it does not have the tool.
type MissingBuild struct {
	Tool  string `json:"tool"`
	Build string `json:"build"`
	Has   string `json:"has,omitzero"`
}

// MaxMissing is the largest number of missing builds in a heartbeat. It keeps heartbeats small.
const MaxMissing = 32

// lacks reports whether the executor of the heartbeat does not have the build, and returns the digest of the build that
// it has instead.
func lacks(missing []MissingBuild, tool, build string) (has string, yes bool) {
	for _, m := range missing {
		if m.Tool == tool && m.Build == build {
			return m.Has, true
		}
	}
	return "", false
}

// Lacking reports whether all executors of the pool whose heartbeats have not expired say that they do not have the
// build of the tool. It is false if none was heard.
func (f *Findings) Lacking(pool, tool, build string) bool {
	return f.agree(pool, func(said finding) bool {
		_, yes := lacks(said.missing, tool, build)
		return yes
	})
}

// Unrunnable reports whether all executors of the pool whose heartbeats have not expired say that no run of the tool
// could start there. It is false if none was heard.
func (f *Findings) Unrunnable(pool, tool string) bool {
	return f.agree(pool, func(said finding) bool {
		return slices.ContainsFunc(said.unrunnable, func(u UnrunnableTool) bool { return u.Tool == tool })
	})
}

// agree reports whether there are executors of the pool whose heartbeats have not expired, and all say so.
func (f *Findings) agree(pool string, so func(finding) bool) bool {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	heard := false
	for _, said := range f.pools[pool] {
		if now.After(said.until) {
			continue
		}
		if !so(said) {
			return false
		}
		heard = true
	}
	return heard
}

// NoneHas reports whether the pool has running executors, and it is certain that none of them has the build of the
// tool: each says so in its newest heartbeat. It returns the digests of the builds that they have instead, sorted. It
// reads the heartbeats of the pool up to the first that does not say so. The answer is false within one lease after an
// interruption of the connection, when heartbeats may be missing.
func (p *Store) NoneHas(ctx context.Context, pool, tool, build string) (has []string, certain bool, err error) {
	if !p.settled() {
		return nil, false, nil
	}
	alive, some, seen := 0, false, 0
	err = p.each(ctx, subjects.PoolFilter(pool), maxCounted, func(subject string, now time.Time) error {
		seen++
		if some {
			return nil
		}
		msg, err := p.newest(ctx, subject)
		if err != nil || msg == nil || !p.lives(msg, now) {
			return err
		}
		b, err := decodeBeat(msg.Data)
		instead, lacking := lacks(b.Missing, tool, build)
		if some = err != nil || !lacking; !some { // an executor whose heartbeat cannot be decoded may have the build
			alive, has = alive+1, append(has, instead)
		}
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("pool %s: %w", pool, err)
	}
	slices.Sort(has)
	return slices.Compact(has), !some && alive > 0 && seen < maxCounted && p.settled(), nil
}
