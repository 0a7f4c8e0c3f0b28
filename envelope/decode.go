package envelope

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/ijson"
	"github.com/seed-018f16cc/toolbus/internal/members"
	"github.com/seed-018f16cc/toolbus/schema"
)

// The content types of an envelope. No content type means JSON.
const (
	ContentJSON    = "application/json"
	ContentMsgpack = "application/msgpack"
)

// DecodeRequest decodes a request of any size up to MaxDocument and checks all of its rules. The
// request shares the memory of body, which must not be changed afterwards. With an error comes what
// the body says of whose request it is, for the answer and the record; nil where it names no call.
func DecodeRequest(contentType string, body []byte) (*Request, *Error) {
	var q Request
	size, input, e := asRequest.decode(contentType, body, func(r *reader) { q = Request{}; q.read(r) })
	if input != nil {
		q.Input = input
	}
	if e == nil {
		e = asRequest.sizes(size, len(q.Input), MaxPayload)
	}
	if e != nil {
		return q.remains(), e
	}
	return &q, nil
}

// DecodeResponse decodes a response; see [DecodeRequest]. The response is coherent, too (see
// [Response.Check]).
func DecodeResponse(contentType string, body []byte) (*Response, *Error) {
	var s Response
	size, output, e := asResponse.decode(contentType, body, func(r *reader) { s = Response{}; s.read(r) })
	if output != nil {
		s.Output = output
	}
	if e == nil {
		e = asResponse.sizes(size, len(s.Output), MaxPayload)
	}
	if e == nil {
		if err := s.Check(); err != nil {
			e = asResponse.refuse(asResponse.schema, ijson.NewViolation("", "coherence", err.Error()))
		}
	}
	return orNil(&s, e)
}

// DecodeChunk decodes a chunk; see [DecodeRequest].
func DecodeChunk(contentType string, body []byte) (*Chunk, *Error) {
	var c Chunk
	size, _, e := asChunk.decode(contentType, body, func(r *reader) { c = Chunk{}; c.read(r) })
	if e == nil {
		e = asChunk.sizes(size, len(c.Data), MaxChunk)
	}
	return orNil(&c, e)
}

// DecodeAccepted decodes an accepted message; see [DecodeRequest].
func DecodeAccepted(contentType string, body []byte) (*Accepted, *Error) {
	var a Accepted
	size, _, e := asAccepted.decode(contentType, body, func(r *reader) { a = Accepted{}; a.read(r) })
	if e == nil {
		e = asAccepted.sizes(size, 0, 0)
	}
	return orNil(&a, e)
}

// EncodeRequest encodes r as it stands; see [Request.Check] for whether it is valid.
func EncodeRequest(contentType string, r *Request) ([]byte, error) {
	if len(r.Input) >= worthCutting && !ijson.IsQuick(r.Input) {
		return encode(contentType, r)
	}
	body, err := AppendRequest(nil, r)
	if err != nil {
		return nil, err
	}
	return in(contentType, body)
}

// AppendRequest appends r to b as JSON. Its input is known to be JSON: it was part of a decoded envelope,
// or has passed [ijson.Check]. A large one is not looked at again.
func AppendRequest(b []byte, r *Request) ([]byte, error) {
	payload := large(r.Input)
	w := members.Writer{Bytes: slices.Grow(b, roomForHead+len(r.Input))}
	if r.write(&w, payload); !w.Odd {
		return w.Bytes, nil
	}
	rest := *r
	if payload != nil {
		rest.Input = null
	}
	return appendAround(b, &rest, "input", payload)
}

// EncodeResponse encodes r as it stands; see [AppendResponse].
func EncodeResponse(contentType string, r *Response) ([]byte, error) {
	body, err := AppendResponse(nil, r)
	if err != nil {
		return nil, err
	}
	return in(contentType, body)
}

// AppendResponse appends r to b as JSON; what [AppendRequest] says of inputs goes for its output.
func AppendResponse(b []byte, r *Response) ([]byte, error) {
	payload := large(r.Output)
	w := members.Writer{Bytes: slices.Grow(b, roomForHead+len(r.Output))}
	if r.write(&w, payload); !w.Odd {
		return w.Bytes, nil
	}
	rest := *r
	if payload != nil {
		rest.Output = null
	}
	return appendAround(b, &rest, "output", payload)
}

// roomForHead is what most envelopes need besides their payload.
const roomForHead = 600

// large returns a payload that is put into its envelope as it is; nil for a small one.
func large(payload jsontext.Value) jsontext.Value {
	if len(payload) < worthCutting {
		return nil
	}
	return payload
}

// EncodeChunk encodes c as it stands.
func EncodeChunk(contentType string, c *Chunk) ([]byte, error) { return encode(contentType, c) }

// EncodeAccepted encodes a as it stands.
func EncodeAccepted(contentType string, a *Accepted) ([]byte, error) { return encode(contentType, a) }

// Check reports all that is wrong with a request that was put together in memory, in the words
// that [DecodeRequest] would use; nil means that it is fine.
func (q *Request) Check() *Error {
	body, err := EncodeRequest(ContentJSON, q)
	if err != nil {
		return NewError(CodeMalformed, "").WithCause(err.Error())
	}
	_, e := DecodeRequest(ContentJSON, body)
	return e
}

func orNil[T any](v *T, e *Error) (*T, *Error) {
	if e != nil {
		return nil, e
	}
	return v, nil
}

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

// MediaType returns a content type without its parameters, as the constants have it; none means JSON.
func MediaType(contentType string) string {
	switch contentType {
	case "", ContentJSON:
		return ContentJSON
	case ContentMsgpack:
		return ContentMsgpack
	}
	name, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(name))
}

// wire is a type of envelope: its schema, and the codes that say what is wrong with one. A
// request is the caller's to mend, everything else is a fault of the protocol.
type wire struct {
	published                func() *schema.Schema
	malformed, schema, limit Code
	payload                  string // name of the member that may be large
	values                   int    // most values besides that; 0 for what is ours
}

var (
	asRequest  = wire{RequestSchema, CodeMalformed, CodeSchema, CodeLimit, "input", MaxHeadValues}
	asResponse = wire{ResponseSchema, CodeToolProtocol, CodeToolProtocol, CodeOutputLimit, "output", 0}
	asChunk    = wire{ChunkSchema, CodeToolProtocol, CodeToolProtocol, CodeOutputLimit, "", 0}
	asAccepted = wire{AcceptedSchema, CodeToolProtocol, CodeToolProtocol, CodeOutputLimit, "", 0}
)

func (w wire) refuse(code Code, v ...schema.Violation) *Error {
	return NewError(code, "").WithViolations(v...)
}

// decode reads body with read, which may be called twice and must start afresh each time. What
// read finds odd is judged by the schema. It returns the size of the envelope as JSON, and its
// payload where that is so large that it was cut out before the rest was read.
func (w wire) decode(contentType string, body []byte, read func(*reader)) (size int, payload jsontext.Value, e *Error) {
	doc, e := w.json(contentType, body)
	if e != nil {
		return 0, nil, e
	}
	if w.payload != "" && len(doc) >= worthCutting {
		if rest, payload, ok := ijson.Cut(doc, w.payload); ok && w.fine(rest, read) {
			return len(doc), payload, nil
		}
	}
	r, err := readJSON(doc, read)
	if err == nil && !r.odd && !r.unsure && ijson.WithinLimits(doc) && !w.crowded(doc) {
		return len(doc), nil, nil
	}
	if e := w.judge(doc); e != nil {
		return 0, nil, e
	}
	if !r.odd {
		return len(doc), nil, nil
	}
	return len(doc), nil, w.readAgain(doc, read)
}

// fine reports whether all is well with doc as far as read can tell.
func (w wire) fine(doc []byte, read func(*reader)) bool {
	r, err := readJSON(doc, read)
	return err == nil && !r.odd && !r.unsure && ijson.WithinLimits(doc) && !w.crowded(doc)
}

// crowded reports whether doc has more values besides its payload than may be. What is short has not so
// many.
func (w wire) crowded(doc []byte) bool {
	return w.values > 0 && len(doc) > 2*w.values && ijson.Values(ijson.Hollow(doc, w.payload)) > w.values
}

// readAgain reads the canonical form of a doc that the schema found valid: the schema takes 1.0
// and 1e3 for integers, in canonical form they are 1 and 1000.
func (w wire) readAgain(doc jsontext.Value, read func(*reader)) *Error {
	doc, err := ijson.CanonicalChecked(doc)
	if err != nil {
		return w.refuse(w.malformed, ijson.NewViolation("", ijson.RuleSyntax, err.Error()))
	}
	if r, err := readJSON(doc, read); err != nil || r.odd {
		return w.refuse(w.schema, ijson.NewViolation(r.at, "type", "does not have the form that is expected here"))
	}
	return nil
}

// json returns body as JSON.
func (w wire) json(contentType string, body []byte) ([]byte, *Error) {
	if len(body) > MaxDocument {
		return nil, w.refuse(w.limit, ijson.NewViolation("", ijson.RuleSize, errTooLarge.Error()))
	}
	switch MediaType(contentType) {
	case ContentJSON:
		return body, nil
	case ContentMsgpack:
		return w.msgpack(body)
	}
	return nil, w.refuse(w.malformed, ijson.NewViolation("", ijson.RuleType, fmt.Sprintf("%q is not supported", ijson.Clip(contentType, 80))))
}

func (w wire) msgpack(body []byte) ([]byte, *Error) {
	doc, err := msgpackToJSON(body)
	switch {
	case errors.Is(err, ijson.ErrTooDeep):
		return nil, w.refuse(w.limit, ijson.NewViolation("", ijson.RuleDepth, err.Error()))
	case errors.Is(err, errTooLarge):
		return nil, w.refuse(w.limit, ijson.NewViolation("", ijson.RuleSize, err.Error()))
	case err != nil:
		return nil, w.refuse(w.malformed, ijson.NewViolation("", "msgpack", err.Error()))
	}
	return doc, nil
}

// judge lists all that is wrong with doc; nil means nothing is.
func (w wire) judge(doc jsontext.Value) *Error {
	found := ijson.Check(doc)
	code := w.code(found)
	head := doc
	if w.payload != "" {
		head = ijson.Hollow(doc, w.payload)
	}
	switch {
	case code != w.schema:
	case w.crowded(doc), w.payload != "" && len(head) > MaxHead: // to judge it would take far longer than to send it
		code = w.limit
		found = append(found, ijson.NewViolation("", ijson.RuleSize, fmt.Sprintf("more than %d bytes, or too many values, besides the payload", MaxHead)))
	default:
		found = append(found, w.published().ValidateChecked(head)...)
	}
	if len(found) == 0 {
		return nil
	}
	return w.refuse(code, found...)
}

// code says with which code such violations of I-JSON are refused.
func (w wire) code(found []schema.Violation) Code {
	code := w.schema
	for _, v := range found {
		switch v.Rule {
		case ijson.RuleSyntax, ijson.RuleUTF8, ijson.RuleDuplicate:
			return w.malformed
		case ijson.RuleDepth, ijson.RuleName:
			code = w.limit
		}
	}
	return code
}

// InputFault returns the error with which a request is refused whose input, by itself, breaks I-JSON
// as [ijson.Check] says.
func InputFault(found []schema.Violation) *Error {
	return asRequest.refuse(asRequest.code(found), found...)
}

// sizes checks the payload and the rest of an envelope against their own limits, in bytes of JSON.
func (w wire) sizes(envelope, payload, most int) *Error {
	if payload > most {
		return w.refuse(w.limit, ijson.NewViolation("", ijson.RuleSize, fmt.Sprintf("the payload is larger than %d bytes", most)))
	}
	if envelope-payload > MaxHead {
		return w.refuse(w.limit, ijson.NewViolation("", ijson.RuleSize, fmt.Sprintf("more than %d bytes besides the payload", MaxHead)))
	}
	return nil
}
