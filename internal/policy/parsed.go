package policy

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// parsedForm is part of [rules]. Raise it if Parse takes other documents than before, or makes another Set of them,
// although the schemas are the same.
const parsedForm = "2"

// parsed is a set that a dispatcher has parsed, for others that parse by the same rules.
type parsed struct {
	Rules    string                  `json:"rules"`
	Versions envelope.PolicyVersions `json:"versions"`
	Roles    []Role                  `json:"roles"`
	Lanes    []Lane                  `json:"lanes"`
	Entries  []Entry                 `json:"entries"`
}

// rules returns a digest of what [Parse] of this build checks.
func rules() string {
	all := [][]byte{[]byte(parsedForm), []byte(strings.Join(effectNames(), " "))}
	for _, d := range AllDocuments() {
		all = append(all, d.Schema)
	}
	return Digest(slices.Concat(all...))
}

// Parsed returns the set as JSON, which [ReadParsed] reads in a small part of the time that [Parse] takes.
func (s *Set) Parsed() ([]byte, error) {
	return json.Marshal(parsed{rules(), s.versions, s.Roles, s.Lanes, s.Entries})
}

// ErrOtherRules is the error of [ReadParsed] for the set of a build that checks documents in another way.
var ErrOtherRules = errors.New("a build with other rules has parsed the set")

// ReadParsed returns the set with these versions from what [Set.Parsed] has returned in a dispatcher. Problems that
// [Compile] finds in it have no line.
func ReadParsed(raw []byte, v envelope.PolicyVersions) (*Set, error) {
	var p parsed
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, err
	}
	if p.Rules != rules() || p.Versions != v {
		return nil, ErrOtherRules
	}
	return &Set{
		Roles: p.Roles, Lanes: p.Lanes, Entries: p.Entries, versions: v,
		lanes: tool.NewDocument(LanesFile), registry: tool.NewDocument(ToolRegistryFile),
	}, nil
}
