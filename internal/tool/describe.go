package tool

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Inventory returns the version and digest of each loaded tool, sorted by id. It sets More if not all fit into one
// answer.
func (r *Set) Inventory(instance string) envelope.Inventory {
	i := envelope.Inventory{Instance: instance, Tools: map[string]string{}}
	room := maxListed
	for _, m := range r.List() {
		build := m.Semver + " (" + m.Digest[:min(len(m.Digest), digestShown)] + ")"
		if room -= 2*len(m.ToolID) + len(build); room < 0 {
			i.More = true
			break
		}
		i.Tools[m.ToolID] = build
	}
	return i
}

// digestShown is the length of the digest prefix that Inventory shows, with the name of the hash.
const digestShown = len("sha256:") + 12

// maxListed limits the list of tools in one answer, in bytes. Describe counts JSON; Inventory estimates it.
const maxListed = 256 << 10

// Describe returns the tools after q.After, sorted by id, and whether there are more than fit into one answer. If q
// names a tool, it returns only that tool, with its schemas.
func (r *Set) Describe(q envelope.DescribeRequest) (list []envelope.ToolInfo, more bool) {
	return r.DescribeSome(q, func(*Manifest) bool { return true })
}

// DescribeSome is Describe for a caller that knows only the tools for which knows returns true.
func (r *Set) DescribeSome(q envelope.DescribeRequest, knows func(*Manifest) bool) (
	list []envelope.ToolInfo, more bool) {
	list = []envelope.ToolInfo{}
	if q.Tool != "" {
		if m, _ := r.Get(q.Tool, ""); m != nil && knows(m) {
			list = append(list, m.describe(true))
		}
		return list, false
	}
	room := maxListed
	for _, m := range r.List() {
		if m.ToolID <= q.After || !knows(m) {
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
		Status: string(m.Status), Determinism: string(m.Class), Effect: m.CanonicalEffect(),
		Transport: m.Transport, Pool: m.Pool,
		Streaming: m.Capability.Streaming, DryRun: m.Capability.DryRun, Lookup: m.Capability.Lookup,
		TimeoutDefaultMS: m.Limits.TimeoutDefaultMS, TimeoutMaxMS: m.Limits.TimeoutMaxMS,
		KeyRequirement: m.KeyRequirement, DeclaredOnly: m.DeclaredOnly, ReadOnly: m.ReadOnly,
		Limits: m.Limits, RetentionS: int64(m.Retention / time.Second),
		Functions: map[string]envelope.FunctionInfo{},
	}
	if schemas {
		info.Listed, info.Manifest, info.Coerces = m.Listed, m.Whole, m.coerces()
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

// FromDescription returns the manifest of a tool as far as a dispatcher describes it: without its errors, the outputs
// of its functions, and its endpoint. Only whether that coerces inputs is known, see [Manifest.Coerced].
func FromDescription(info envelope.ToolInfo) (*Manifest, error) {
	m := &Manifest{}
	if info.Manifest != nil {
		if err := json.Unmarshal(info.Manifest, m); err != nil {
			return nil, fmt.Errorf("manifest of %s: %w", info.ToolID, err)
		}
	}
	m.ToolID, m.Semver, m.Digest, m.Whole = info.ToolID, info.Version, info.Digest, info.Manifest
	m.Description, m.Status, m.ReadOnly, m.Limits = info.Description, Status(info.Status), info.ReadOnly, info.Limits
	m.Class, m.Effect = call.EffectClass(info.Determinism), info.Effect
	if info.Coerces {
		m.Endpoint = describedEndpoint{}
	}
	var err error
	m.Functions, err = describedFunctions(info)
	return m, err
}

// describedEndpoint stands for an endpoint that coerces inputs.
type describedEndpoint struct{}

// Files implements [Endpoint].
func (describedEndpoint) Files() []File { return nil }

// Name implements [Endpoint].
func (describedEndpoint) Name() string { return "" }

// Coerces implements [Coercing].
func (describedEndpoint) Coerces() bool { return true }

// describedFunctions returns the functions of a tool with the schemas of their inputs, as far as info has them.
func describedFunctions(info envelope.ToolInfo) (all map[string]*Function, err error) {
	all = make(map[string]*Function, len(info.Functions))
	for name, of := range info.Functions {
		f := &Function{Name: name, Description: of.Description}
		if of.Request != nil {
			if f.Request, err = jsonschema.Compile(name, of.Request, nil); err != nil {
				return nil, fmt.Errorf("input of %s: %w", info.ToolID, err)
			}
		}
		all[name] = f
	}
	return all, nil
}
