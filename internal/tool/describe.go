package tool

import (
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Inventory says which builds of which tools are loaded, as many as an answer has room for.
func (r *Set) Inventory(instance string) envelope.Inventory {
	i := envelope.Inventory{Instance: instance, Tools: map[string]string{}}
	room := maxListed
	for _, m := range r.List() { // by id
		build := m.Semver + " (" + m.Digest[:min(len(m.Digest), digestShown)] + ")"
		if room -= 2*len(m.ToolID) + len(build); room < 0 {
			i.More = true
			break
		}
		i.Tools[m.ToolID] = build
	}
	return i
}

// digestShown is how much of a digest tells two builds apart, the name of the hash included.
const digestShown = len("sha256:") + 12

// maxListed is how much of the list of tools goes into one answer, in bytes of JSON.
const maxListed = 256 << 10

// Describe lists tools, as many as an answer has room for, and says whether there are more; with an
// id, that one with its schemas.
func (r *Set) Describe(q envelope.DescribeRequest) (list []envelope.ToolInfo, more bool) {
	list = []envelope.ToolInfo{}
	if q.Tool != "" {
		if m, _ := r.Get(q.Tool, ""); m != nil {
			list = append(list, m.describe(true))
		}
		return list, false
	}
	room := maxListed
	for _, m := range r.List() {
		if m.ToolID <= q.After {
			continue
		}
		info := m.describe(false)
		raw, err := json.Marshal(info)
		if room -= len(raw); err != nil || room < 0 && len(list) > 0 {
			return list, true
		}
		list = append(list, info)
	}
	return list, false
}

func (m *Manifest) describe(schemas bool) envelope.ToolInfo {
	info := envelope.ToolInfo{
		ToolID: m.ToolID, Name: m.Name, Version: m.Semver, Digest: m.Digest, Title: m.Title, Description: m.Description,
		Owner:  m.Owner,
		Status: string(m.Status), Determinism: string(m.Class), Transport: m.Transport, Pool: m.Pool,
		Streaming: m.Capability.Streaming, DryRun: m.Capability.DryRun, Lookup: m.Capability.Lookup,
		TimeoutDefaultMS: m.Limits.TimeoutDefaultMS, TimeoutMaxMS: m.Limits.TimeoutMaxMS,
		Limits: m.Limits, RetentionS: int64(m.Retention / time.Second), Functions: map[string]envelope.FunctionInfo{},
	}
	if schemas {
		info.Listed = m.Listed
	}
	for name, fn := range m.Functions {
		f := envelope.FunctionInfo{Description: fn.Description}
		if schemas {
			f.Request, f.Response = fn.Request.Whole(), fn.Response.Whole()
		}
		info.Functions[name] = f
	}
	for _, name := range slices.Sorted(maps.Keys(m.Errors)) {
		spec := m.Errors[name]
		info.Errors = append(info.Errors, envelope.DeclaredError{
			Code: envelope.ToolErrorCode(spec.Class, spec.Name), ToolCode: spec.Name, HTTPStatus: spec.HTTPStatus,
			Message: spec.Message, Fix: spec.Fix,
		})
	}
	return info
}
