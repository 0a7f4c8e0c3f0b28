package schema

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// bundle puts the documents that a schema refers to, by address, into its $defs. Each has its address
// in it, so that all references mean what they did (JSON Schema 2020-12 core, 9.3).
func bundle(at string, raw []byte, others map[string][]byte) ([]byte, error) {
	whole, err := addressed(at, raw)
	if err != nil {
		return nil, err
	}
	defs := map[string]any{}
	if own, ok := whole["$defs"]; ok {
		if err := json.Unmarshal(own, &defs); err != nil {
			return nil, err
		}
	}
	for address, other := range others {
		if defs[address], err = addressed(address, other); err != nil {
			return nil, err
		}
	}
	if whole["$defs"], err = json.Marshal(defs, json.Deterministic(true)); err != nil {
		return nil, err
	}
	return json.Marshal(whole, json.Deterministic(true))
}

// addressed returns the members of a schema with its address among them.
func addressed(at string, raw []byte) (map[string]jsontext.Value, error) {
	members := map[string]jsontext.Value{}
	switch jsontext.Value(raw).Kind() {
	case 't': // true is the schema of everything
	case 'f':
		members["not"] = jsontext.Value("{}")
	default:
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, err
		}
	}
	if _, own := members["$id"]; own {
		return nil, fmt.Errorf("%s, which is one of several documents, has an $id: leave it out", at)
	}
	id, err := json.Marshal(at)
	members["$id"] = id
	return members, err
}
