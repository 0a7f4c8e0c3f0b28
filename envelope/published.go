package envelope

import (
	"embed"
	"fmt"
	"strings"
	"sync"

	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

// The published schemas, compiled at first use.
var (
	requestSchema  = sync.OnceValue(published("request.json"))
	responseSchema = sync.OnceValue(published("response.json"))
	acceptedSchema = sync.OnceValue(published("accepted.json"))
)

// RequestSchema returns the published schema of a [Request].
func RequestSchema() *jsonschema.Schema { return requestSchema() }

// ResponseSchema returns the published schema of a [Response]. It accepts any output, because the tool defines the
// schema of its output.
func ResponseSchema() *jsonschema.Schema { return responseSchema() }

// AcceptedSchema returns the published schema of an [Accepted].
func AcceptedSchema() *jsonschema.Schema { return acceptedSchema() }

// published returns a function that compiles an embedded schema. The files are part of the
// program, so a fault in one is a programmer's mistake and panics; a test compiles them all.
func published(name string) func() *jsonschema.Schema {
	return func() *jsonschema.Schema {
		raw, err := schemaFiles.ReadFile("schemas/" + name)
		if err != nil {
			panic(err)
		}
		s, err := jsonschema.Compile(name, raw, anything)
		if err != nil {
			panic(err)
		}
		return s
	}
}

// outcomeSchema is the schema of a [Response] by which it is judged: that of the source, and what all builds write
// into its metrics. Builds up to 329e2657 may have stored a negative duration_ms.
var outcomeSchema = sync.OnceValue(func() *jsonschema.Schema {
	const (
		number   = `{"type":"integer","minimum":0,"maximum":9007199254740991}`
		duration = `{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991}`
	)
	text := strings.NewReplacer(`{"$ref":"output.json#"}`, `true`, `"duration_ms":{"type":"integer"}`,
		`"duration_ms":`+duration+`,"cpu_ms":`+number+`,"memory_peak_mb":`+number+`,"queue_ms":`+number+`,"attempts":`+number,
	).Replace(string(ResponseSchema().Raw()))
	s, err := jsonschema.Compile("response.json", []byte(text), nil)
	if err != nil {
		panic(err)
	}
	return s
})

// anything stands in for the schemas of a tool's input and output, which the envelope leaves
// to the tool.
func anything(ref string) ([]byte, error) {
	if ref != "input.json" && ref != "output.json" {
		return nil, fmt.Errorf("unknown schema %s", ref)
	}
	return []byte("true"), nil
}
