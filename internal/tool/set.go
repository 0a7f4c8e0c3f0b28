package tool

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/Masterminds/semver/v3"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Set is a set of manifests, safe for concurrent use. It changes only by [Set.Replace].
type Set struct {
	now       atomic.Pointer[snapshot]
	replacing sync.Mutex
}

// snapshot is an immutable state of a Set.
type snapshot struct {
	versions map[string][]*Manifest // by tool id; sorted by preferred
	sorted   []*Manifest
	former   []*Manifest // replaced ones, the newest first
	digest   func() string
	replaced chan struct{} // closed when the Set has another state
}

// NewSet returns a Set of loaded manifests. No two manifests may have the same id and version.
func NewSet(manifests ...*Manifest) *Set {
	s := &Set{}
	s.now.Store(newSnapshot(manifests, nil))
	return s
}

func newSnapshot(manifests, former []*Manifest) *snapshot {
	n := &snapshot{
		versions: make(map[string][]*Manifest, len(manifests)), sorted: slices.Clone(manifests), former: former,
		replaced: make(chan struct{}),
	}
	slices.SortFunc(n.sorted, func(a, b *Manifest) int {
		return cmp.Or(cmp.Compare(a.ToolID, b.ToolID), preferred(a, b))
	})
	for _, m := range n.sorted {
		n.versions[m.ToolID] = append(n.versions[m.ToolID], m)
	}
	n.digest = sync.OnceValue(func() string { return digestOf(n.sorted) })
	return n
}

// digestOf returns a digest of all builds. It is the same for the same builds.
func digestOf(manifests []*Manifest) string {
	var all []string
	for _, m := range manifests {
		all = append(all, fmt.Sprintf("%q %s %s\n", m.ToolID, m.Semver, m.Digest))
	}
	slices.Sort(all)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(all, ""))))
}

// maxFormer is the largest number of replaced manifests that a Set keeps for the calls that were admitted for them.
const maxFormer = 64

// Replace puts other manifests in the place of those of the set. [Set.Build] still finds the newest of the replaced
// ones.
func (r *Set) Replace(manifests ...*Manifest) {
	r.replacing.Lock()
	defer r.replacing.Unlock()
	was := r.now.Load()
	former := slices.DeleteFunc(slices.Concat(was.sorted, was.former), func(m *Manifest) bool {
		return slices.ContainsFunc(manifests, m.sameBuild)
	})
	r.now.Store(newSnapshot(manifests, former[:min(len(former), maxFormer)]))
	close(was.replaced)
}

// Replaced returns a channel that is closed at the next [Set.Replace].
func (r *Set) Replaced() <-chan struct{} { return r.now.Load().replaced }

func (m *Manifest) sameBuild(other *Manifest) bool {
	return m.ToolID == other.ToolID && m.Digest == other.Digest
}

// Same reports whether another load of the tool has found nothing else.
func (m *Manifest) Same(other *Manifest) bool {
	return m.sameBuild(other) && m.Dir == other.Dir && m.Missing == other.Missing && m.Actual == other.Actual
}

// Build returns the manifest of a tool with a build digest, also if it was replaced. It returns nil if the set does not
// have the build.
func (r *Set) Build(toolID, digest string) *Manifest {
	now, want := r.now.Load(), &Manifest{ToolID: toolID, Digest: digest}
	for _, all := range [][]*Manifest{now.versions[toolID], now.former} {
		if at := slices.IndexFunc(all, want.sameBuild); at >= 0 {
			return all[at]
		}
	}
	return nil
}

// Builds returns the manifests of all builds that [Set.Build] finds, in no order.
func (r *Set) Builds() []*Manifest {
	now := r.now.Load()
	return slices.Concat(now.sorted, now.former)
}

// Digest returns a digest of all builds. It is the same for sets of the same builds.
func (r *Set) Digest() string { return r.now.Load().digest() }

// Get returns the preferred version of a tool in the range want: callable versions come first, then releases, then the
// newest. If no version is in the range, Get returns a refusal together with the preferred version of all, which the
// caller can use for further checks. If the tool does not exist, it returns only the refusal.
func (r *Set) Get(toolID, want string) (*Manifest, *envelope.Error) {
	versions := r.now.Load().versions[toolID]
	if len(versions) == 0 {
		return nil, envelope.NoTool(toolID, r.IDs())
	}
	return resolve(versions, want)
}

// Named returns the id of the tool whose token in subjects is token. The token of a very long id is a digest, so the id
// cannot be derived from it.
func (r *Set) Named(token string) (toolID string, ok bool) {
	for toolID := range r.now.Load().versions {
		if subjects.Token(toolID) == token {
			return toolID, true
		}
	}
	return "", false
}

// List returns the manifests of every status, sorted by tool id. The preferred version of a tool comes first.
func (r *Set) List() []*Manifest { return slices.Clone(r.now.Load().sorted) }

// IDs returns the ids of all tools, sorted.
func (r *Set) IDs() []string {
	sorted := r.now.Load().sorted
	ids := make([]string, len(sorted))
	for i, m := range sorted {
		ids[i] = m.ToolID
	}
	return slices.Compact(ids)
}

// Len returns the number of manifests.
func (r *Set) Len() int { return len(r.now.Load().sorted) }

// resolve returns the first of the versions, which are sorted by preferred, in the range want: an exact version, 1.x,
// ^1.2, ~1.2.3, ">=1 <2", * or "". A range selects a pre-release only if it names one. If no version is in the range,
// resolve returns the first version and a refusal that names them all.
func resolve(versions []*Manifest, want string) (*Manifest, *envelope.Error) {
	first := versions[0]
	if want == "" || want == "*" {
		return first, nil
	}
	if at := slices.IndexFunc(versions, func(m *Manifest) bool { return m.Semver == want }); at >= 0 {
		return versions[at], nil
	}
	if len(want) > envelope.MaxLabel {
		return first, envelope.NewError(envelope.CodeMalformed,
			fmt.Sprintf("tool_version is longer than %d bytes", envelope.MaxLabel))
	}
	wanted, err := semver.NewConstraint(want)
	if err != nil {
		return first, envelope.NewError(envelope.CodeMalformed, fmt.Sprintf("tool_version %q is not a semver range", want)).
			WithFix("write an exact version such as " + first.Semver + ", or a range such as ^1.2, 1.x or >=1.2 <2")
	}
	for _, m := range versions {
		if have, err := semver.StrictNewVersion(m.Semver); err == nil && wanted.Check(have) {
			return m, nil
		}
	}
	return first, outOfRange(versions, want)
}

func outOfRange(versions []*Manifest, want string) *envelope.Error {
	names := make([]string, len(versions))
	for i, m := range versions {
		names[i] = m.Semver
	}
	return envelope.NewError(envelope.CodeVersion,
		fmt.Sprintf("no version of %s is in %q; there is %s", versions[0].ToolID, want, strings.Join(names, ", "))).
		WithFix("ask for " + names[0])
}

// preferred orders the versions of a tool: callable before not callable, then releases before pre-releases, then newest
// first.
func preferred(a, b *Manifest) int {
	if a.Callable() != b.Callable() {
		return before(a.Callable())
	}
	x, xErr := semver.StrictNewVersion(a.Semver)
	y, yErr := semver.StrictNewVersion(b.Semver)
	switch {
	case xErr != nil || yErr != nil:
		return cmp.Compare(b.Semver, a.Semver)
	case (x.Prerelease() == "") != (y.Prerelease() == ""):
		return before(x.Prerelease() == "")
	}
	return y.Compare(x)
}

func before(a bool) int {
	if a {
		return -1
	}
	return 1
}
