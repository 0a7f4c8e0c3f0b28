package client

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestInputSummary(t *testing.T) {
	many := `{"a":1` + strings.Repeat(`,"a":1`, 40) + `}`
	long := strings.Repeat("é", 100)
	for input, want := range map[string]string{
		``:                                       "0 bytes",
		`null`:                                   "null of 4 bytes",
		` "secret" `:                             "string of 10 bytes",
		`[1,2]`:                                  "array of 5 bytes",
		`{}`:                                     "{}",
		`{"a":true,"b":{"c":"secret"},"d":-1.5}`: "{a: boolean of 4 bytes, b: object of 14 bytes, d: number of 4 bytes}",
		many:                                     "{" + strings.Repeat("a: number of 1 bytes, ", 32) + "…}",
		`{"` + long + `":1}`:                     "{" + strings.Repeat("é", 32) + ": number of 1 bytes}",
		`{"a":1,"b`:                              "{a: number of 1 bytes}",
	} {
		if got := inputSummary(jsontext.Value(input)); got != want {
			t.Errorf("%s: %s, want %s", input, got, want)
		}
	}
}
