package tool

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Set is an immutable snapshot of manifests, safe for concurrent use.
type Set struct {
	versions map[string][]*Manifest // by tool id; sorted by preferred
	sorted   []*Manifest
}

// NewSet returns a Set of loaded manifests. No two manifests may have the same id and version.
func NewSet(manifests ...*Manifest) *Set {
	r := &Set{versions: make(map[string][]*Manifest, len(manifests)), sorted: slices.Clone(manifests)}
	slices.SortFunc(r.sorted, func(a, b *Manifest) int {
		return cmp.Or(cmp.Compare(a.ToolID, b.ToolID), preferred(a, b))
	})
	for _, m := range r.sorted {
		r.versions[m.ToolID] = append(r.versions[m.ToolID], m)
	}
	return r
}

// Get returns the preferred version of a tool in the range want: callable versions come first, then releases, then the
// newest. If no version is in the range, Get returns a refusal together with the preferred version of all, which the
// caller can use for further checks. If the tool does not exist, it returns only the refusal.
func (r *Set) Get(toolID, want string) (*Manifest, *envelope.Error) {
	versions := r.versions[toolID]
	if len(versions) == 0 {
		return nil, envelope.NoTool(toolID, r.IDs())
	}
	return resolve(versions, want)
}

// Named returns the id of the tool whose token in subjects is token. The token of a very long id is a digest, so the id
// cannot be derived from it.
func (r *Set) Named(token string) (toolID string, ok bool) {
	for toolID := range r.versions {
		if subjects.Token(toolID) == token {
			return toolID, true
		}
	}
	return "", false
}

// List returns the manifests of every status, sorted by tool id. The preferred version of a tool comes first.
func (r *Set) List() []*Manifest { return slices.Clone(r.sorted) }

// IDs returns the ids of all tools, sorted.
func (r *Set) IDs() []string {
	ids := make([]string, len(r.sorted))
	for i, m := range r.sorted {
		ids[i] = m.ToolID
	}
	return slices.Compact(ids)
}

func (r *Set) Len() int { return len(r.sorted) }

// program is a file in the tool's folder that its endpoint names, as it was when the digest was computed.
type program struct {
	name string
	sum  string // SHA-256, hex
	info fs.FileInfo
}

// Unchanged returns an error if a program of the tool differs from the one that was loaded: the run would not match the
// recorded digest. It reads a file again only if its identity, size or modification time has changed.
func (m *Manifest) Unchanged() error {
	if m.Missing != "" {
		return fmt.Errorf("%s: was missing when the tool was loaded; build it, and restart the executor", m.Missing)
	}
	for _, p := range m.programs {
		if err := p.unchanged(m.Dir); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func (p *program) unchanged(dir string) error {
	info, err := os.Stat(filepath.Join(dir, p.name))
	if err != nil {
		return err
	}
	if os.SameFile(info, p.info) && info.Size() == p.info.Size() && info.ModTime().Equal(p.info.ModTime()) {
		return nil
	}
	sum, err := sumFile(os.DirFS(dir), p.name)
	if err == nil && sum != p.sum {
		err = errChanged
	}
	return err
}

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
