package jsonschema_test

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

func ExampleCompile() {
	s, err := jsonschema.Compile("request.json", []byte(`{
		"type": "object", "required": ["url"], "additionalProperties": false,
		"properties": {"url": {"type": "string", "format": "uri"}}
	}`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Validate(jsontext.Value(`{"url": "https://example.com"}`)))
	fmt.Println(s.Validate(jsontext.Value(`{"uri": 1}`)))
	// Output:
	// []
	// [{/uri additionalProperties is not allowed here; did you mean "url"?} {/url required is missing}]
}
