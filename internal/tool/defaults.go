package tool

import (
	"cmp"
	_ "embed" // the schema of policy/defaults.yaml
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

//go:embed defaults.json
var defaultsSchema []byte

// policyFields are the fields of a manifest that an entry of the defaults may have, too. They are declared only there,
// as in the manifest.
var policyFields = []string{"retry_policy", "rate_limit", "circuit_breaker", "budgets"}

// Environments are the environments of a deployment, as in context.env of a request.
func Environments() []string { return []string{"prod", "staging", "dev"} }

// Defaults are the contents of a policy/defaults.yaml: values that replace the defaults of manifests (002 §Policies).
// The zero value replaces nothing.
type Defaults struct{ entries []defaultsEntry }

// defaultsEntry holds the values for some tools in some environments.
type defaultsEntry struct {
	Env         []string                  `json:"env"`
	Tools       string                    `json:"tools"`
	TimeoutMS   int64                     `json:"timeout_ms"`
	Concurrency int                       `json:"concurrency"`
	Policies    map[string]jsontext.Value `json:",embed"`
}

// ReadDefaults reads a policy/defaults.yaml. If it has problems, the error is of type Problems and lists all of them.
func ReadDefaults(name string) (Defaults, error) {
	var d Defaults
	dir, base := filepath.Split(name)
	raw, err := readFile(os.DirFS(cmp.Or(dir, ".")), base, MaxManifest)
	if err != nil {
		return d, fmt.Errorf("defaults of tools: %w", err)
	}
	schema, err := newDefaultsSchema()
	if err != nil {
		return d, err
	}
	doc := schema.Read(name, raw)
	if problems := doc.Problems(); len(problems) > 0 {
		return d, problems
	}
	var file struct {
		Defaults []defaultsEntry `json:"defaults"`
	}
	err = doc.Decode(&file)
	return Defaults{file.Defaults}, err
}

// newDefaultsSchema returns the schema of the defaults, with the policy fields of manifests.
func newDefaultsSchema() (*DocumentSchema, error) {
	c := &contract{}
	var manifest map[string]any
	if err := json.Unmarshal(defaultsSchema, &c.document); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(manifestSchema, &manifest); err != nil {
		return nil, err
	}
	entry := member(member(member(member(c.document, "properties"), "defaults"), "items"), "properties")
	for _, name := range policyFields {
		entry[name] = member(member(manifest, "properties"), name)
	}
	return newDocumentSchema("defaults.yaml", c)
}

// Apply returns m with the defaults of an environment, or m itself if no entry holds for it. The build digest stays. A
// value never exceeds a maximum of the manifest.
func (d Defaults) Apply(m *Manifest, env string) (*Manifest, error) {
	values := map[string]jsontext.Value{}
	limits := m.Limits
	for _, e := range d.entries {
		if !e.holds(m.ToolID, env) {
			continue
		}
		if e.TimeoutMS > 0 {
			limits.TimeoutDefaultMS = min(e.TimeoutMS, limits.TimeoutMaxMS)
		}
		if e.Concurrency > 0 {
			limits.Concurrency = e.Concurrency
			if m.ConcurrencyGiven {
				limits.Concurrency = min(e.Concurrency, m.Limits.Concurrency)
			}
		}
		maps.Copy(values, e.Policies)
	}
	if limits == m.Limits && len(values) == 0 {
		return m, nil
	}
	changed := *m
	changed.Limits = limits
	return &changed, changed.describeDefaults(values)
}

func (e *defaultsEntry) holds(toolID, env string) bool {
	prefix, open := strings.CutSuffix(e.Tools, "*")
	named := toolID == e.Tools || open && strings.HasPrefix(toolID, prefix)
	return named && (len(e.Env) == 0 || slices.Contains(e.Env, env))
}

// describeDefaults puts the limits of m and the policies into its description.
func (m *Manifest) describeDefaults(policies map[string]jsontext.Value) error {
	whole := map[string]jsontext.Value{}
	limits := map[string]any{}
	if err := json.Unmarshal(m.Whole, &whole); err != nil {
		return err
	}
	if own := whole["limits"]; own != nil {
		if err := json.Unmarshal(own, &limits); err != nil {
			return err
		}
	}
	limits["timeout_ms_default"], limits["concurrency_max"] = m.Limits.TimeoutDefaultMS, m.Limits.Concurrency
	raw, err := json.Marshal(limits, json.Deterministic(true))
	if err != nil {
		return err
	}
	whole["limits"] = raw
	maps.Copy(whole, policies)
	m.DeclaredOnly = slices.Clone(m.DeclaredOnly)
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		if !slices.Contains(m.DeclaredOnly, name) {
			m.DeclaredOnly = append(m.DeclaredOnly, name)
		}
	}
	m.Whole, err = json.Marshal(whole, json.Deterministic(true))
	return err
}
