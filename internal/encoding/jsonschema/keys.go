package jsonschema

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"math"
	"slices"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// keySet is a set of JSON values. The time of a lookup depends on the looked up value, and not on the size of the set.
type keySet struct {
	keys    map[string]bool
	kinds   int    // of the values
	longest int    // length of the longest key
	text    string // the values, as a violation lists them
}

func newKeySet(values ...any) *keySet {
	set := &keySet{keys: make(map[string]bool, len(values)), text: ijson.Clip(list(values), ijson.MaxViolationText)}
	unlimited := steps{left: math.MaxInt}
	for _, v := range values {
		key := unlimited.appendKey(nil, v, math.MaxInt)
		set.keys[string(key)] = true
		set.kinds |= kindOf(v)
		set.longest = max(set.longest, len(key))
	}
	return set
}

// in reports whether v is one of the values of a set.
func (c *checker) in(set *keySet, v any) bool {
	if set.kinds&kindOf(v) == 0 {
		return false
	}
	c.key = c.appendKey(c.key[:0], v, set.longest)
	return set.keys[string(c.key)]
}

// unique reports whether all items are different. If not, it returns the positions of the first two equal ones. It
// looks up a key by its hash, because the keys of all items may take as much memory as the whole value.
func (c *checker) unique(items []any) (first, second int, ok bool) {
	seed, seen := maphash.MakeSeed(), make(map[uint64]int, len(items))
	for second, item := range items {
		c.key = c.appendKey(c.key[:0], item, math.MaxInt)
		hash := maphash.Bytes(seed, c.key)
		first, met := seen[hash]
		if met && string(c.appendKey(nil, items[first], math.MaxInt)) == string(c.key) {
			return first, second, false
		}
		seen[hash] = second
	}
	return 0, 0, true
}

// appendKey appends the key of a decoded value to b. Values have the same key if they are equal, and only then. If the
// result would be longer than most bytes, it is incomplete, but longer than that, too.
func (s *steps) appendKey(b []byte, v any, most int) []byte {
	s.take(1)
	switch v := v.(type) {
	case nil:
		b = append(b, 'n')
	case bool:
		b = append(b, 'f')
		if v {
			b[len(b)-1] = 't'
		}
	case float64:
		if v == 0 {
			v = 0 // -0 is equal to 0
		}
		b = binary.BigEndian.AppendUint64(append(b, '#'), math.Float64bits(v))
	case string:
		b = binary.AppendUvarint(append(b, '"'), uint64(len(v)))
		v = v[:min(len(v), most)]
		s.take(len(v) / (8 * bytesPerStep))
		b = append(b, v...)
	case []any:
		b = binary.AppendUvarint(append(b, '['), uint64(len(v)))
		for i := 0; i < len(v) && len(b) <= most; i++ {
			b = s.appendKey(b, v[i], most)
		}
	case map[string]any:
		s.take(len(v))
		b = binary.AppendUvarint(append(b, '{'), uint64(len(v)))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if len(b) > most {
				break
			}
			b = s.appendKey(s.appendKey(b, name, most), v[name], most)
		}
	}
	return b
}

// kindOf returns the kind of a decoded value, as a bit.
func kindOf(v any) int {
	switch v := v.(type) {
	case nil:
		return kindNull
	case bool:
		return kindBool
	case float64:
		if v == math.Trunc(v) {
			return kindInteger
		}
		return kindNumber
	case string:
		return kindString
	case []any:
		return kindArray
	case map[string]any:
		return kindObject
	}
	return 0
}
