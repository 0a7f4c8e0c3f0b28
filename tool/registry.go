package tool

import (
	"cmp"
	"slices"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Registry is an immutable snapshot of manifests, safe for concurrent use.
type Registry struct {
	byID   map[string]*Manifest
	sorted []*Manifest
}

// NewRegistry returns a registry of manifests that were loaded, no two of them with the same id.
func NewRegistry(manifests ...*Manifest) *Registry {
	r := &Registry{byID: make(map[string]*Manifest, len(manifests)), sorted: slices.Clone(manifests)}
	slices.SortFunc(r.sorted, func(a, b *Manifest) int { return cmp.Compare(a.ToolID, b.ToolID) })
	for _, m := range manifests {
		r.byID[m.ToolID] = m
	}
	return r
}

// Get returns the manifest of a tool.
func (r *Registry) Get(toolID string) (*Manifest, bool) {
	m, ok := r.byID[toolID]
	return m, ok
}

// Named returns the manifest of the tool whose id is token in subjects: that of a very long id holds
// only a digest of it.
func (r *Registry) Named(token string) (*Manifest, bool) {
	for _, m := range r.sorted {
		if subjects.Token(m.ToolID) == token {
			return m, true
		}
	}
	return nil, false
}

// List returns all manifests, sorted by tool id, whatever their status.
func (r *Registry) List() []*Manifest { return slices.Clone(r.sorted) }

// IDs returns the ids of all tools, sorted.
func (r *Registry) IDs() []string {
	ids := make([]string, len(r.sorted))
	for i, m := range r.sorted {
		ids[i] = m.ToolID
	}
	return ids
}

// Len counts the manifests.
func (r *Registry) Len() int { return len(r.sorted) }
