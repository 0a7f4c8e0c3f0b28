package policy

import (
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Merge returns the rules of an entry and a manifest.
func Merge(e Entry, m *tool.Manifest) (Rules, error) {
	f, err := fieldsOf(m)
	return merge(e, m, f), err
}

// MayWrite reports whether the tool may write to a target, see [call.WriteTargets].
func (r Rules) MayWrite(target string) bool { return call.WriteTargets(r.WriteTargets).Allow(target) }
