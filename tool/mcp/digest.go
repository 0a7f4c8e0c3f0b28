package mcp

import (
	"crypto/sha256"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/ijson"
	"github.com/seed-018f16cc/toolbus/tool/mcp/upstream"
)

// Definition returns what the digest of a tool is over: its name, description, both schemas and annotations, as
// canonical JSON. What is not there is null. The error says why it has no such form.
func Definition(t upstream.Tool) (jsontext.Value, error) {
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
	if bad := ijson.Check(raw); len(bad) > 0 {
		return nil, fmt.Errorf("its definition cannot be read, at %q: %s", bad[0].Pointer, bad[0].Message)
	}
	return ijson.Canonical(raw)
}

// Digest returns the SHA-256 of a definition, as manifests have it.
func Digest(definition jsontext.Value) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(definition))
}
