package native

import (
	"cmp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Transport is the name of this transport in manifests.
const Transport = "native"

const endpointSchema = `{"type": "object", "additionalProperties": false, "properties": {
"native": {"type": "string"}, "build": {"type": "string", "maxLength": 256}}}`

// Endpoint is the endpoint of a native tool. Native is the name of the registered function; default: the tool's id.
// Build is a name that the author gives to the build of the function. As part of the manifest it is part of the digest,
// in place of the bytes of the executor's binary.
type Endpoint struct {
	Native string `json:"native"`
	Build  string `json:"build,omitzero"`
}

// Describe returns what package tool needs in order to read manifests of this transport.
func Describe() tool.Transport {
	text := func(_, name string) map[string]any { return map[string]any{"native": name} }
	return tool.Transport{Name: Transport, Schema: endpointSchema, Text: text, Endpoint: decode}
}

func decode(m *tool.Manifest, raw jsontext.Value, report func(at, message, hint string)) tool.Endpoint {
	var e Endpoint
	if raw != nil {
		if err := json.Unmarshal(raw, &e); err != nil {
			report("/endpoint", err.Error(), "native and build are names")
		}
	}
	e.Native = cmp.Or(e.Native, m.ToolID)
	return e
}

// Name returns the name of the registered function.
func (e Endpoint) Name() string { return e.Native }

// Files returns nil: a native tool is part of its executor's binary.
func (Endpoint) Files() []tool.File { return nil }
