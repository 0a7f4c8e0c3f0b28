package format

import (
	"fmt"

	"github.com/go-json-experiment/json"
)

// Marshal encodes v, which is a JSON object, with the form that this build writes of its kind, as its first
// member.
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

// Unmarshal is the inverse of [Stamp]. Members that this build does not know are left out; a form that it does
// not read is a [format.Error].
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
