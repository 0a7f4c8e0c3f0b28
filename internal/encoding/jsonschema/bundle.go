package jsonschema

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// bundle adds the documents to which a schema refers, by address, to its $defs. Each document contains its address, so
// that all references keep their meaning (JSON Schema 2020-12 core, 9.3).
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

// addressed returns the members of a schema with its address as $id.
func addressed(at string, raw []byte) (map[string]jsontext.Value, error) {
	members := map[string]jsontext.Value{}
	switch jsontext.Value(raw).Kind() {
	case 't': // the schema true has no members
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

// Within returns [Schema.Whole] for inclusion in another document. The schema and all documents to which it refers get
// addresses below base. base must be an absolute address that ends with a slash and is unique in the document.
func (s *Schema) Within(base string) ([]byte, error) {
	if jsontext.Value(s.whole).Kind() != '{' {
		return s.whole, nil
	}
	members, err := rebased(s.whole, base)
	if err != nil || members["$defs"] == nil {
		return marshal(members, err)
	}
	var defs, moved = map[string]jsontext.Value{}, map[string]any{}
	if err := json.Unmarshal(members["$defs"], &defs); err != nil {
		return nil, err
	}
	for name, def := range defs {
		if path, other := strings.CutPrefix(name, schemaBase); other {
			if moved[base+path], err = rebased(def, base); err != nil {
				return nil, err
			}
			continue
		}
		moved[name] = def
	}
	if members["$defs"], err = marshal(moved, nil); err != nil {
		return nil, err
	}
	return marshal(members, nil)
}

func marshal(v any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(v, json.Deterministic(true))
}

// rebased returns the members of a schema with an address below base. A schema with an $id from outside keeps it.
func rebased(schema jsontext.Value, base string) (members map[string]jsontext.Value, err error) {
	if err := json.Unmarshal(schema, &members); err != nil {
		return nil, err
	}
	var id string
	if members["$id"] != nil {
		if err := json.Unmarshal(members["$id"], &id); err != nil {
			return nil, err
		}
	}
	if path, ours := strings.CutPrefix(id, schemaBase); ours || id == "" {
		members["$id"], err = marshal(base+path, nil)
	}
	return members, err
}
