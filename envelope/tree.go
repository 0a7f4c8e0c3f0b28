package envelope

import (
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// decodeNext decodes the next value of dec as maps, slices and scalars.
func decodeNext(dec *jsontext.Decoder, depth int) (any, error) {
	switch dec.PeekKind() {
	case '{':
		return decodeMap(dec, depth+1)
	case '[':
		return decodeSlice(dec, depth+1)
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	switch raw.Kind() {
	case '"':
		return unquote(raw), nil
	case '0':
		return decodeNumber(raw)
	case 't', 'f':
		return raw.Kind() == 't', nil
	}
	return nil, nil
}

func decodeMap(dec *jsontext.Decoder, depth int) (any, error) {
	if err := open(dec, depth); err != nil {
		return nil, err
	}
	m := map[string]any{}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		key := unquote(name)
		if m[key], err = decodeNext(dec, depth); err != nil {
			return nil, err
		}
	}
	_, err := dec.ReadToken()
	return m, err
}

func decodeSlice(dec *jsontext.Decoder, depth int) (any, error) {
	if err := open(dec, depth); err != nil {
		return nil, err
	}
	s := []any{}
	for {
		switch dec.PeekKind() {
		case ']', jsontext.KindInvalid:
			_, err := dec.ReadToken()
			return s, err
		}
		item, err := decodeNext(dec, depth)
		if err != nil {
			return nil, err
		}
		s = append(s, item)
	}
}

func open(dec *jsontext.Decoder, depth int) error {
	if depth > MaxDepth {
		return errTooDeep
	}
	_, err := dec.ReadToken()
	return err
}

// decodeNumber keeps integers exact. A number that no float64 holds is an error: the schema
// library would make a rational of a million digits of it, or panic.
func decodeNumber(raw []byte) (any, error) {
	if !fractional(raw) {
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return n, nil
		}
	}
	return strconv.ParseFloat(string(raw), 64)
}

// isEOF reports whether a decoder has reached the end of its input.
func isEOF(err error) bool { return errors.Is(err, io.EOF) }
