package policy

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Snapshot is a compiled policy set with the tools of a deployment. It is immutable and safe for concurrent use.
type Snapshot struct {
	versions envelope.PolicyVersions
	roles    map[string]laneSet
	lanes    map[string]*lane
	laneIDs  []string // by index; sorted
	tools    map[string]*registered
}

// lane is a compiled lane.
type lane struct {
	Lane
	index    int
	tools    map[string]bool // tool ids
	prefixes []string        // of tool ids
	flags    []string        // prohibited arguments
}

// registered is a tool with an entry in the registry.
type registered struct {
	entry  Entry
	builds []*build // of each version; none if the deployment does not have the tool
	lanes  laneSet  // lanes in which a build may be called, as far as that does not depend on the call
	open   laneSet  // those of the builds that are enabled and in the range of versions
}

// build is one version of a registered tool.
type build struct {
	Rules
	manifest *tool.Manifest
	declared gatewayFields
	inRange  bool
	lanes    laneSet
}

// Versions returns the digests of the documents that the snapshot was compiled from.
func (s *Snapshot) Versions() envelope.PolicyVersions { return s.versions }

// Compile compiles a set with the manifests of a deployment. Tools without an entry stay unregistered. If the set does
// not fit the manifests, the error is of type [tool.Problems] and lists all problems.
func Compile(set *Set, tools []*tool.Manifest) (*Snapshot, error) {
	s := &Snapshot{versions: set.versions, roles: map[string]laneSet{}, lanes: map[string]*lane{}}
	for _, l := range set.Lanes {
		s.laneIDs = append(s.laneIDs, l.ID)
	}
	slices.Sort(s.laneIDs)
	for _, l := range set.Lanes {
		index, _ := slices.BinarySearch(s.laneIDs, l.ID)
		s.lanes[l.ID] = newLane(l, index)
	}
	for _, r := range set.Roles {
		s.roles[r.ID] = s.lanesNamed(r.AllowedLanes)
	}
	manifests := map[string][]*tool.Manifest{}
	for _, m := range tools {
		manifests[m.ToolID] = append(manifests[m.ToolID], m)
	}
	return s, s.register(set, manifests)
}

func newLane(l Lane, index int) *lane {
	compiled := &lane{Lane: l, index: index, tools: map[string]bool{}}
	for _, t := range l.AllowedTools {
		if prefix, open := strings.CutSuffix(t, "*"); open {
			compiled.prefixes = append(compiled.prefixes, prefix)
		} else {
			compiled.tools[t] = true
		}
	}
	for _, flag := range l.ProhibitedFlags {
		if kind, name := splitFlag(flag); kind == flagArgument {
			compiled.flags = append(compiled.flags, name)
		}
	}
	return compiled
}

func (s *Snapshot) lanesNamed(ids []string) laneSet {
	named := newLaneSet(len(s.laneIDs))
	for _, id := range ids {
		named.add(s.lanes[id].index)
	}
	return named
}

// register compiles the entries. It returns the problems of tools that write, but have no write target or no lane.
func (s *Snapshot) register(set *Set, manifests map[string][]*tool.Manifest) error {
	s.tools = make(map[string]*registered, len(set.Entries))
	var problems tool.Problems
	for i, e := range set.Entries {
		t := &registered{entry: e, lanes: newLaneSet(len(s.laneIDs)), open: newLaneSet(len(s.laneIDs))}
		for _, m := range manifests[e.ToolName] {
			b, err := s.build(t, m)
			if err != nil {
				return fmt.Errorf("manifest of %s: %w", e.ToolName, err)
			}
			t.builds = append(t.builds, b)
			t.lanes.addAll(b.lanes)
			if b.Enabled && b.inRange {
				t.open.addAll(b.lanes)
			}
			problems = append(problems, s.unwritable(set.registry, i, t, b)...)
		}
		s.tools[e.ToolName] = t
	}
	if problems != nil {
		return problems
	}
	return nil
}

// build compiles one version of the tool t.
func (s *Snapshot) build(t *registered, m *tool.Manifest) (*build, error) {
	e := t.entry
	declared, err := fieldsOf(m)
	if err != nil {
		return nil, err
	}
	b := &build{
		Rules: merge(e, m, declared), manifest: m, declared: declared, inRange: inRange(e.Versions, m.Semver),
		lanes: newLaneSet(len(s.laneIDs)),
	}
	for _, id := range b.AllowedLanes {
		l := s.lanes[id]
		v := view{s: s, lane: l, tool: t, build: b}
		if l.knows(m.ToolID) && v.permitted().code == "" && v.lawful().code == "" {
			b.lanes.add(l.index)
		}
	}
	return b, nil
}

// inRange reports whether a version is in a range of versions.
func inRange(versions, version string) bool {
	if versions == "" {
		return true
	}
	wanted, err := semver.NewConstraint(versions)
	if err != nil {
		return false
	}
	have, err := semver.StrictNewVersion(version)
	return err == nil && wanted.Check(have)
}

// unwritable returns the problems of a build that writes. Its entry is the one with index i.
func (s *Snapshot) unwritable(doc *tool.Document, i int, t *registered, b *build) tool.Problems {
	if !b.Writes {
		return nil
	}
	at, id := jsontext.Pointer(fmt.Sprintf("/tools/%d", i)), b.manifest.ToolID
	var problems tool.Problems
	if len(b.WriteTargets) == 0 {
		problems = append(problems, doc.Problem(at+"/write_targets",
			fmt.Sprintf("%s writes, and no write target is allowed by its entry and its manifest", id),
			"name the beginnings of its targets, for example write_targets: [file:/srv/out/], or * for every target"))
	}
	if !slices.ContainsFunc(b.AllowedLanes, func(id string) bool {
		v := view{s: s, lane: s.lanes[id], tool: t, build: b}
		return v.lane.Write && v.permitted().code == ""
	}) {
		problems = append(problems, doc.Problem(at+"/allowed_lanes",
			fmt.Sprintf("%s writes, and no lane with write: true allows it", id),
			"add it to allowed_tools of such a lane in "+LanesFile+", and name the lane here, or remove the entry"))
	}
	return problems
}

// laneSet is a set of lanes, by their index in a snapshot.
type laneSet []uint64

func newLaneSet(lanes int) laneSet { return make(laneSet, (lanes+63)/64) }

func (s laneSet) add(lane int)      { s[lane/64] |= 1 << (lane % 64) }
func (s laneSet) has(lane int) bool { return s[lane/64]&(1<<(lane%64)) != 0 }

// addAll adds the lanes of t.
func (s laneSet) addAll(t laneSet) {
	for i, word := range t {
		s[i] |= word
	}
}

// meets reports whether s and t have a lane in common.
func (s laneSet) meets(t laneSet) bool {
	for i, word := range s {
		if word&t[i] != 0 {
			return true
		}
	}
	return false
}

// both yields the lanes that s and t have in common, in order.
func (s laneSet) both(t laneSet) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, word := range s {
			for word &= t[i]; word != 0; word &= word - 1 {
				if !yield(i*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}
