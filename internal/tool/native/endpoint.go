package native

import (
	"cmp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Transport is what manifests call this transport.
const Transport = "native"

const endpointSchema = `{"type": "object", "additionalProperties": false, "properties": {"native": {"type": "string"}}}`

// Endpoint is the endpoint of a native tool.
type Endpoint struct {
	Native string `json:"native"` // the name that it was registered under; the tool's id unless named
}

// Describe returns what package tool needs in order to read manifests of this transport.
func Describe() tool.Transport {
	return tool.Transport{Name: Transport, Schema: endpointSchema, Endpoint: decode}
}

func decode(m *tool.Manifest, raw jsontext.Value, report func(at, message, hint string)) tool.Endpoint {
	var e Endpoint
	if raw != nil {
		if err := json.Unmarshal(raw, &e); err != nil {
			report("/endpoint", err.Error(), "native is a name")
		}
	}
	e.Native = cmp.Or(e.Native, m.ToolID)
	return e
}

// Name is the name that the tool was registered under.
func (e Endpoint) Name() string { return e.Native }

// Files are none: a native tool is part of its executor's binary.
func (Endpoint) Files() []tool.File { return nil }
