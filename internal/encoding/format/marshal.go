package format

import (
	"fmt"

	"github.com/go-json-experiment/json"
)

// Marshal encodes v, which must encode as a JSON object. It adds a first member form: the format number that this build
// writes.
func Marshal(k Kind, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	stamped := fmt.Appendf(make([]byte, 0, len(data)+12), `{"form":%d`, k.Current())
	if len(data) > len("{}") {
		stamped = append(stamped, ',')
	}
	return append(stamped, data[1:]...), nil
}

// Unmarshal is the inverse of [Marshal]. It ignores unknown members. The error is an [Error] if this build does not
// read the format.
func Unmarshal(k Kind, data []byte, v any) error {
	var head struct {
		Form int `json:"form"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	if err := k.Check(head.Form); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}
