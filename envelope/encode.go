package envelope

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// EncodeRequest encodes r without checking it; see [Request.Check].
func EncodeRequest(contentType string, r *Request) ([]byte, error) {
	if len(r.Input) >= worthCutting && !ijson.Valid(r.Input) {
		return encode(contentType, r)
	}
	body, err := AppendRequest(nil, r)
	if err != nil {
		return nil, err
	}
	return in(contentType, body)
}

// AppendRequest appends r to b as JSON, without checking it. The input must be valid JSON. A large input is copied as
// it is, so that the receiver must check it for duplicate names and lone surrogates.
func AppendRequest(b []byte, r *Request) ([]byte, error) {
	body, err := asRequest.append(b, r)
	if err != nil && large(r.Input) == nil && isJSON(r.Input) {
		rest := *r
		rest.Input = null
		if spliced, err := appendAround(b, &rest, "input", r.Input); err == nil {
			return spliced, nil
		}
	}
	return body, err
}

// isJSON reports whether v is JSON, though perhaps no I-JSON.
func isJSON(v jsontext.Value) bool {
	return utf8.Valid(v) && v.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// EncodeResponse encodes r without checking it; see [AppendResponse].
func EncodeResponse(contentType string, r *Response) ([]byte, error) {
	body, err := AppendResponse(nil, r)
	if err != nil {
		return nil, err
	}
	return in(contentType, body)
}

// AppendResponse appends r to b as JSON, without checking it. Its output must be valid JSON; see [AppendRequest].
func AppendResponse(b []byte, r *Response) ([]byte, error) { return asResponse.append(b, r) }

// append appends v to b, by its table or else by the JSON library.
func (w *wire[T]) append(b []byte, v *T) ([]byte, error) {
	whole := *w.at(v)
	payload := large(whole)
	if own, ok := w.table.Append(slices.Grow(b, roomForHead+len(whole)), v, payload); ok {
		return own, nil
	}
	rest := *v
	if payload != nil {
		*w.at(&rest) = null
	}
	return appendAround(b, &rest, w.payload, payload)
}

// roomForHead is what most envelopes need besides their payload.
const roomForHead = 600

// worthCutting is the size from which an envelope is written without its payload.
const worthCutting = 4 << 10

// large returns a payload that is put into its envelope as it is; nil for a small one.
func large(payload jsontext.Value) jsontext.Value {
	if len(payload) < worthCutting {
		return nil
	}
	return payload
}

// EncodeAccepted encodes a without checking it.
func EncodeAccepted(contentType string, a *Accepted) ([]byte, error) { return encode(contentType, a) }

func encode(contentType string, v any) ([]byte, error) {
	body, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return in(contentType, body)
}

var null = jsontext.Value("null")

// appendAround appends v to b and puts payload, if there is one, in the place of the null that v has
// for it.
func appendAround(b []byte, v any, name string, payload jsontext.Value) ([]byte, error) {
	rest, err := encode(ContentJSON, v)
	if err != nil {
		return nil, err
	}
	if payload == nil {
		return append(b, rest...), nil
	}
	return splice(b, rest, name, payload), nil
}

// splice appends rest to b, with payload in the place of the null that the first member of this name has.
// Strings cannot look like it, since their quotes are escaped.
func splice(b, rest []byte, name string, payload []byte) []byte {
	place := []byte(`,"` + name + `":null`)
	i := bytes.Index(rest, place) + len(place) - len(null)
	b = slices.Grow(b, len(rest)+len(payload))
	b = append(b, rest[:i]...)
	b = append(b, payload...)
	return append(b, rest[i+len(null):]...)
}

// in returns a JSON body in the form of a content type.
func in(contentType string, body []byte) ([]byte, error) {
	switch MediaType(contentType) {
	case ContentJSON:
		return body, nil
	case ContentMsgpack:
		return jsonToMsgpack(body)
	}
	return nil, fmt.Errorf("encode: unknown content type %q", contentType)
}
