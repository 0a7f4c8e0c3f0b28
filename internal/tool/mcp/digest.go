package mcp

import (
	"crypto/sha256"
	stdjson "encoding/json"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// Definition returns the input of a tool's digest: its name, description, both schemas and annotations, as canonical
// JSON. A missing member is null. A number that JSON libraries read differently is replaced by a string with its text.
// The error says why the tool has no such form.
func Definition(t client.Tool) (jsontext.Value, error) {
	if t.Bad != nil {
		return nil, fmt.Errorf("its definition cannot be read: %w", t.Bad)
	}
	raw, err := json.Marshal(struct {
		Name         string         `json:"name"`
		Description  string         `json:"description"`
		InputSchema  jsontext.Value `json:"inputSchema"`
		OutputSchema jsontext.Value `json:"outputSchema"`
		Annotations  jsontext.Value `json:"annotations"`
	}{t.Name, t.Description, t.InputSchema, t.OutputSchema, t.Annotations})
	if err != nil {
		return nil, err
	}
	if ijson.Valid(raw) {
		return ijson.Canonical(raw)
	}
	if raw, err = spelled(raw); err != nil {
		return nil, fmt.Errorf("its definition cannot be read: %w", err)
	}
	if bad := ijson.Check(raw); len(bad) > 0 {
		return nil, fmt.Errorf("its definition cannot be read, at %q: %s", bad[0].Pointer, bad[0].Message)
	}
	return ijson.Canonical(raw)
}

// spelled returns a definition with each number that no float64 holds exactly, such as the bounds of int64, replaced by
// its text. So the digest differs for two such numbers, which canonical JSON cannot represent.
func spelled(raw jsontext.Value) (jsontext.Value, error) {
	v, err := jsonschema.Decode(raw)
	if err != nil {
		return nil, err
	}
	return json.Marshal(spell(v), json.Deterministic(true))
}

func spell(v any) any {
	switch v := v.(type) {
	case stdjson.Number:
		if !ijson.Valid(jsontext.Value(v)) {
			return string(v)
		}
		return jsontext.Value(v)
	case []any:
		for i := range v {
			v[i] = spell(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = spell(v[name])
		}
	}
	return v
}

// digestsOf returns the digests of tools by name, each of the first tool with that name. The digest of an unreadable
// definition is "", which equals no approved digest.
func digestsOf(tools []client.Tool) map[string]string {
	digests := make(map[string]string, len(tools))
	for _, t := range tools {
		if _, again := digests[t.Name]; !again {
			digests[t.Name] = digestOf(t)
		}
	}
	return digests
}

// SameDefinition reports whether two tools have the same digest.
func SameDefinition(a, b client.Tool) bool { return digestOf(a) == digestOf(b) }

func digestOf(t client.Tool) string {
	definition, err := Definition(t)
	if err != nil {
		return ""
	}
	return Digest(definition)
}

// Digest returns the SHA-256 of a definition, in the form of manifests.
func Digest(definition jsontext.Value) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(definition))
}
