package tool

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Set is an immutable snapshot of manifests, safe for concurrent use.
type Set struct {
	versions map[string][]*Manifest // by id, as preferred
	sorted   []*Manifest
}

// NewSet returns a registry of manifests that were loaded, no two of them with the same id and version.
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

// Get returns the version of a tool that a request for want gets: the newest one in the range, above all of those
// that may be called. Where none is in the range there is a refusal, beside the version that would be the first
// choice, by which callers may judge further; where there is no such tool there is the refusal alone.
func (r *Set) Get(toolID, want string) (*Manifest, *envelope.Error) {
	versions := r.versions[toolID]
	if len(versions) == 0 {
		return nil, envelope.NoTool(toolID, r.IDs())
	}
	return resolve(versions, want)
}

// Named returns the id of the tool that has token in subjects: that of a very long id holds only a digest of it.
func (r *Set) Named(token string) (toolID string, ok bool) {
	for toolID := range r.versions {
		if subjects.Token(toolID) == token {
			return toolID, true
		}
	}
	return "", false
}

// List returns all manifests, sorted by tool id, whatever their status.
func (r *Set) List() []*Manifest { return slices.Clone(r.sorted) }

// IDs returns the ids of all tools, sorted.
func (r *Set) IDs() []string {
	ids := make([]string, len(r.sorted))
	for i, m := range r.sorted {
		ids[i] = m.ToolID
	}
	return slices.Compact(ids)
}

// Len counts the manifests.
func (r *Set) Len() int { return len(r.sorted) }

// program is a file of the tool's folder that its command names, as it was when the digest was made.
type program struct {
	name string
	sum  string // SHA-256, hex
	info fs.FileInfo
}

// Unchanged returns an error where a program of the tool is not what it was loaded as any more: what
// ran would not be what the digest on record is of. One that looks otherwise, as after a copy of the same, is
// read to tell.
func (m *Manifest) Unchanged() error {
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
