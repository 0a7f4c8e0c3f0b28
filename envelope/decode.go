package envelope

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// The content types of an envelope. No content type means JSON.
const (
	ContentJSON    = "application/json"
	ContentMsgpack = "application/msgpack"
)

// DecodeRequest decodes and checks a request of at most MaxDocument bytes. The Input of the result shares the memory of
// body: do not change body afterwards. With an error, it returns a request that holds only the valid ones of call id,
// version, function, trace, run, role and lane, for the answer and the audit record. It returns nil if the body has no
// valid call id.
func DecodeRequest(contentType string, body []byte) (*Request, *Error) {
	doc, e := asRequest.json(contentType, body)
	if e != nil {
		return nil, e
	}
	q, e := asRequest.decode(doc)
	if e != nil {
		return remains(doc), e
	}
	return q, nil
}

// DecodeResponse decodes and checks a response; see [DecodeRequest] and [Response.Check]. A negative duration_ms, which
// builds up to 329e2657 stored when the clock of the bus was set back during a run, becomes 0.
func DecodeResponse(contentType string, body []byte) (*Response, *Error) {
	s, e := asResponse.read(contentType, body)
	if e != nil {
		return nil, e
	}
	s.Metrics.DurationMS = max(0, s.Metrics.DurationMS)
	if err := s.Check(); err != nil {
		return nil, refuse(asResponse.schema, "coherence", "%v", err)
	}
	return s, nil
}

// DecodeAccepted decodes and checks an accepted message, and ignores unknown members; see [DecodeRequest].
func DecodeAccepted(contentType string, body []byte) (*Accepted, *Error) {
	return asAccepted.read(contentType, body)
}

// Check checks a request that was made in memory. It returns the error that [DecodeRequest] would return, which lists
// each broken rule, and nil if the request is valid.
func (q *Request) Check() *Error {
	body, err := EncodeRequest(ContentJSON, q)
	if at, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return NewError(CodeMalformed, "").WithCause(err.Error()).
			WithViolations(ijson.NewViolation(string(at.JSONPointer), ijson.RuleUTF8, at.Err.Error()))
	}
	if err != nil {
		return NewError(CodeMalformed, "").WithCause(err.Error())
	}
	p, e := asRequest.split(body, ijson.Scan(body, asRequest.payload))
	if e == nil {
		e = asRequest.judge(p)
	}
	if e == nil {
		e = asRequest.sizes(len(body), len(p.payload))
	}
	return e
}

// MediaType returns a content type without its parameters, for comparison with ContentJSON and ContentMsgpack. ""
// becomes ContentJSON.
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

// wire is a type of envelope: its members, its schema, and the codes that say what is wrong with one. A
// request is the caller's to mend, everything else is a fault of the protocol.
type wire[T any] struct {
	table                    ijson.Table[T]
	sure                     func(*T) bool // whether a value that the table has read is certainly valid by the schema
	judged                   func() *jsonschema.Schema
	malformed, schema, limit Code
	payload                  string                   // name of the member that may be large
	at                       func(*T) *jsontext.Value // that member
	values                   int                      // most values besides that; 0 for what is ours
}

var (
	asRequest = wire[Request]{
		ijson.TableOf[Request](), (*Request).plain, RequestSchema, CodeMalformed, CodeSchema, CodeLimit,
		"input", func(q *Request) *jsontext.Value { return &q.Input }, MaxHeadValues,
	}
	asResponse = wire[Response]{
		ijson.TableOf[Response](), func(s *Response) bool { return s.Check() == nil }, outcomeSchema,
		CodeToolProtocol, CodeToolProtocol, CodeOutputLimit,
		"output", func(s *Response) *jsontext.Value { return &s.Output }, 0,
	}
	asAccepted = wire[Accepted]{
		ijson.TableOf[Accepted](), func(*Accepted) bool { return false }, AcceptedSchema,
		CodeToolProtocol, CodeToolProtocol, CodeOutputLimit, "", nil, 0,
	}
)

// Rules of envelopes that neither I-JSON nor a schema has.
const (
	ruleSize = "size"         // too many bytes
	ruleType = "content_type" // neither JSON nor msgpack
)

// refuse says of one rule that the whole breaks it.
func refuse(code Code, rule, format string, args ...any) *Error {
	return NewError(code, "").WithViolations(ijson.NewViolation("", rule, fmt.Sprintf(format, args...)))
}

// read reads the document in body.
func (w *wire[T]) read(contentType string, body []byte) (*T, *Error) {
	doc, e := w.json(contentType, body)
	if e != nil {
		return nil, e
	}
	return w.decode(doc)
}

// decode reads a document that breaks no rule of w. Its payload, if it may have one, is a part of the document.
func (w *wire[T]) decode(doc jsontext.Value) (*T, *Error) {
	text := ijson.Scan(doc, w.payload)
	v := w.own(doc, text)
	if v != nil && w.sure(v) {
		return v, nil
	}
	return w.check(doc, text, v)
}

// maxShared is the largest head whose memory the strings of an envelope share: one of them may be kept for long.
const maxShared = 2 << 10

// own reads a document that looks exactly as this package writes it, and returns nil for any other.
func (w *wire[T]) own(doc jsontext.Value, text ijson.Text) *T {
	size := text.End - text.Start
	if text.Violations != nil || len(doc)-size > maxShared || size > MaxPayload {
		return nil
	}
	var head string
	var payload jsontext.Value
	if size > 0 {
		head = string(doc[:text.Start]) + "null" + string(doc[text.End:])
		payload = doc[text.Start:text.End:text.End]
	} else {
		head = string(doc)
	}
	v := new(T)
	if !w.table.Read(head, v, payload) {
		return nil
	}
	return v
}

// check returns v, which was read from doc, or reads it with the JSON library if v is nil. It lists every rule that doc
// breaks.
func (w *wire[T]) check(doc jsontext.Value, text ijson.Text, v *T) (*T, *Error) {
	p, e := w.split(doc, text)
	if e != nil {
		return nil, e
	}
	var err error
	if v == nil {
		v, err = read[T](p.head, json.RejectUnknownMembers(true))
	}
	if e := w.judge(p); e != nil {
		return nil, e
	}
	if err != nil { // the schema takes 1.0 and 1e3 for integers, in canonical form they are 1 and 1000
		if p.head, err = ijson.Canonical(p.head); err == nil {
			v, err = read[T](p.head)
		}
	}
	if err != nil {
		var pointer string
		if at, ok := errors.AsType[*json.SemanticError](err); ok {
			pointer = string(at.JSONPointer)
		}
		return nil, NewError(w.schema, "").WithViolations(
			ijson.NewViolation(pointer, "type", "does not have the form that is expected here"))
	}
	if p.payload != nil {
		*w.at(v) = p.payload
	}
	if e := w.sizes(len(doc), len(p.payload)); e != nil {
		return nil, e
	}
	return v, nil
}

// read reads a document that is known to be I-JSON.
func read[T any](doc jsontext.Value, options ...json.Options) (*T, error) {
	v := new(T)
	err := json.Unmarshal(doc, v, append(options, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))...)
	return v, err
}

// parts are a document without its payload, which is null there, and its payload; nil where it has none.
type parts struct {
	head, payload jsontext.Value
	found         []jsonschema.Violation // numbers that cannot be kept exactly
}

// split refuses what cannot be judged by the schema, or would take far longer to judge than to send.
func (w *wire[T]) split(doc jsontext.Value, text ijson.Text) (parts, *Error) {
	p := parts{head: doc, found: text.Violations}
	if text.End > 0 {
		p.head, p.payload = text.Split(doc)
	}
	code, readable := w.fault(p.found)
	if !readable {
		return p, NewError(code, "").WithViolations(p.found...)
	}
	if w.values > 0 && text.Values > w.values || w.payload != "" && len(doc)-len(p.payload) > MaxHead {
		e := refuse(w.limit, ruleSize, "more than %d bytes, or too many values, besides the payload", MaxHead)
		return p, e.WithViolations(append(p.found, e.Details.Violations...)...)
	}
	return p, nil
}

// judge lists all that is wrong with a document.
func (w *wire[T]) judge(p parts) *Error {
	found := p.found
	for _, v := range w.judged().ValidateChecked(p.head) {
		if v.Rule != ijson.RuleNumber && v.Rule != ijson.RuleInteger { // the numbers of the head are listed already
			found = append(found, v)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return NewError(w.schema, "").WithViolations(found...)
}

// sizes checks the payload and the rest of an envelope against their own limits, in bytes of JSON.
func (w *wire[T]) sizes(envelope, payload int) *Error {
	if payload > MaxPayload {
		return refuse(w.limit, ruleSize, "the payload is larger than %d bytes", MaxPayload)
	}
	if envelope-payload > MaxHead {
		return refuse(w.limit, ruleSize, "more than %d bytes besides the payload", MaxHead)
	}
	return nil
}

// json returns body as JSON.
func (w *wire[T]) json(contentType string, body []byte) ([]byte, *Error) {
	if len(body) > MaxDocument {
		return nil, refuse(w.limit, ruleSize, "%v", errTooLarge)
	}
	switch MediaType(contentType) {
	case ContentJSON:
		return body, nil
	case ContentMsgpack:
		return w.msgpack(body)
	}
	return nil, refuse(w.malformed, ruleType, "%q is not supported", ijson.Clip(contentType, 80))
}

func (w *wire[T]) msgpack(body []byte) ([]byte, *Error) {
	doc, err := msgpackToJSON(body)
	switch {
	case errors.Is(err, ijson.ErrTooDeep):
		return nil, refuse(w.limit, ijson.RuleDepth, "%v", err)
	case errors.Is(err, errTooLarge):
		return nil, refuse(w.limit, ruleSize, "%v", err)
	case err != nil:
		return nil, refuse(w.malformed, "msgpack", "%v", err)
	}
	return doc, nil
}

// fault says with which code such violations of I-JSON are refused, and whether the rest of the rules can be
// judged at all.
func (w *wire[T]) fault(found []jsonschema.Violation) (code Code, readable bool) {
	code, readable = w.schema, true
	for _, v := range found {
		switch v.Rule {
		case ijson.RuleSyntax, ijson.RuleUTF8, ijson.RuleDuplicate:
			return w.malformed, false
		case ijson.RuleDepth, ijson.RuleName:
			code, readable = w.limit, false
		}
	}
	return code, readable
}

// InputFault returns the error for a request whose input breaks I-JSON with the given violations.
func InputFault(found []jsonschema.Violation) *Error {
	code, _ := asRequest.fault(found)
	return NewError(code, "").WithViolations(found...)
}

// plain reports whether all but the input of q is certainly fine: it has only members that nearly all
// requests have, in simple ASCII. It takes a twentieth of the time of the schema, which knows all the rules
// and judges the others: false says nothing, and [Request.Check] does.
func (q *Request) plain() bool {
	return jsonschema.IsUUID(q.CallID) && isName(q.ToolID) && plain(q.ToolVersion, 1, MaxLabel) && plain(q.Fn, 1, MaxID) &&
		q.Provenance == nil && q.Context.plain() && q.Constraints.plain()
}

func (c *RequestContext) plain() bool {
	for _, scope := range c.Scopes {
		if !plain(scope, 0, MaxID) {
			return false
		}
	}
	rare := c.ParentSpanID+c.Locale+c.Clock+c.SessionID+c.RoleID+c.RunID+c.LaneID != "" ||
		c.Scope != nil || c.Confidence != nil || c.Evidence != nil || c.MCPMeta != nil ||
		c.MCPInput != nil || c.Extra != nil
	return !rare && len(c.Scopes) <= MaxScopes && plain(c.ActorID, 1, MaxID) && jsonschema.IsUUID(c.TraceID) &&
		plain(c.Timezone, 1, MaxLabel) && (c.Env == "dev" || c.Env == "prod" || c.Env == "staging")
}

func (k *Constraints) plain() bool {
	rare := k.IdempotencyScope != "" || k.CacheKey != "" || k.Budget != nil || k.MemoryMBLimit != 0 ||
		k.NetAllowlist != nil || k.RetryPolicy != nil
	urgency := k.Priority == "" || k.Priority == PriorityNormal || k.Priority == PriorityLow || k.Priority == PriorityHigh
	return !rare && urgency && MinTimeoutMS <= k.TimeoutMS && k.TimeoutMS <= MaxTimeoutMS &&
		0 < k.DeadlineUnixMS && k.DeadlineUnixMS <= ijson.MaxInteger && plain(k.IdempotencyKey, MinKey, MaxKey)
}

// plain reports whether s is least to most characters of printable ASCII.
func plain(s string, least, most int) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return least <= len(s) && len(s) <= most
}

// isName reports whether s is a tool id without a namespace.
func isName(s string) bool {
	return s != "" && len(s) <= MaxToolID && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}
