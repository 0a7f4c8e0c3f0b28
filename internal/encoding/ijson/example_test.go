package ijson_test

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

func ExampleCanonical() {
	c, err := ijson.Canonical(jsontext.Value(`{ "b": 1e2, "a": "\u0041" }`))
	fmt.Println(string(c), err)
	// Output: {"a":"A","b":100} <nil>
}
