package call

import "github.com/go-json-experiment/json/jsontext"

// Answer is the answer of a caller to a question of its running call. A dispatcher sends it to the executor that runs
// the attempt. Result is nil if the caller does not answer.
type Answer struct {
	ID      string         `json:"id"`
	Attempt int            `json:"attempt"`
	Result  jsontext.Value `json:"result,omitzero"`
}
