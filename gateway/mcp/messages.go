package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The gateway parses messages before the library does. So an error is precise, and each request is answered with the
// exact id that the client sent. Requests are recognised by that id.

// fault is the reason why a text is not a JSON-RPC message, or why a message or batch is refused, with the ids of the
// requests that need an answer.
type fault struct {
	code  int64
	why   string
	ids   []jsontext.Value // of the requests in it
	batch bool             // answer with an array
}

// lines returns the answers for the stdio transport: one for each request, or one with the id null.
func (f *fault) lines() (all []byte) {
	if f.batch && len(f.ids) > 0 {
		return append(f.list(), '\n')
	}
	for _, id := range f.ids {
		all = append(all, refusal(id, f.code, f.why)...)
	}
	if len(f.ids) == 0 {
		all = refusal(nil, f.code, f.why)
	}
	return all
}

// body returns the answer over HTTP, which is one value.
func (f *fault) body() []byte {
	switch {
	case f.batch && len(f.ids) > 0:
		return f.list()
	case len(f.ids) == 1:
		return refusal(f.ids[0], f.code, f.why)
	}
	return refusal(nil, f.code, f.why)
}

// list returns the answer to a batch.
func (f *fault) list() []byte {
	all := []byte{'['}
	for i, id := range f.ids {
		if i > 0 {
			all = append(all, ',')
		}
		all = append(all, bytes.TrimSuffix(refusal(id, f.code, f.why), []byte{'\n'})...)
	}
	return append(all, ']')
}

// faultOf returns the error of a text that is neither a JSON-RPC message nor a batch, and nil for any other text.
func faultOf(text []byte) *fault {
	text = bytes.TrimSpace(text)
	dec := jsontext.NewDecoder(bytes.NewBuffer(text)) // which it does not copy
	_, err := dec.ReadValue()
	if err == nil && dec.InputOffset() < int64(len(text)) {
		err = errors.New("something follows it")
	}
	var why string
	code := int64(jsonrpc.CodeInvalidRequest)
	switch {
	case err != nil:
		code = jsonrpc.CodeParseError
		why = "a message is one value in JSON: " + strings.TrimPrefix(err.Error(), "jsontext: ")
	case text[0] == '[':
		why = refutedBatch(text)
	default:
		why = refutedOne(text)
	}
	if why == "" {
		return nil
	}
	return &fault{code: code, why: why, ids: idsIn(text), batch: len(text) > 0 && text[0] == '['}
}

// idsIn returns the ids of the requests in a text.
func idsIn(text []byte) []jsontext.Value {
	f := &finder{}
	_, _ = f.Write(text) // it returns no error
	return f.found()
}

// refutedBatch returns why a list is not a batch.
func refutedBatch(text []byte) (why string) {
	var batch []json.RawMessage
	if err := json.Unmarshal(text, &batch); err != nil || len(batch) == 0 {
		return "a batch is a list of messages, and not empty"
	}
	ids := map[string]bool{}
	for _, one := range batch {
		if why := refutedOne(one); why != "" {
			return why
		}
		id, _ := about(one)
		if ids[string(id)] {
			return "a batch is of messages, each with an id of its own"
		}
		ids[string(id)] = id != nil
	}
	return ""
}

// refutedOne returns why a value is not a message.
func refutedOne(text []byte) (why string) {
	m := membersOf(text)
	switch {
	case text[0] != '{':
		return "a message is an object"
	case string(m.version) != `"2.0"`:
		return "a message is of jsonrpc 2.0"
	case m.method == nil && (m.id == nil || !m.outcome):
		return "a message has a method, or an id and a result or an error"
	case m.method != nil && m.method.Kind() != '"':
		return "a method is a text"
	case m.id != nil && !kept(m.id):
		return "an id is a text, or a whole number below 2^53"
	case m.params != nil && m.params.Kind() != '{' && m.params.Kind() != '[' && m.params.Kind() != 'n':
		return "params are an object"
	}
	return ""
}

// members holds the members of a message as raw JSON; nil for a missing one.
type members struct {
	version, id, method, params jsontext.Value
	outcome                     bool // there is a result or an error
}

// membersOf returns the members of a message; nothing unless it is an object.
func membersOf(text []byte) (m members) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text)) // which it does not copy
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return members{}
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return members{}
		}
		name := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			return members{}
		}
		switch name {
		case "jsonrpc":
			m.version = value.Clone()
		case "id":
			m.id = value.Clone()
		case "method":
			m.method = value.Clone()
		case "params":
			m.params = value.Clone()
		case "result", "error":
			m.outcome = true
		}
	}
	return m
}

// about returns the id and the method of a request in JSON-RPC; nothing for a batch.
func about(body []byte) (id jsontext.Value, method string) {
	m := membersOf(body)
	return m.id, m.name()
}

// name returns the method; "" without one.
func (m *members) name() string {
	if m.method.Kind() != '"' {
		return ""
	}
	text, _ := jsontext.AppendUnquote(nil, m.method) // it is a text
	return string(text)
}

// tooEarly ends the text of the library about a request before initialize, and beginFirst adds what to do.
const (
	tooEarly   = ` is invalid during session initialization`
	beginFirst = `: send initialize first, and over HTTP the ` + headerSessions + ` of its answer with each request`
)

// coded returns a message with a code of JSON-RPC if it is an error for which the library has none: the request was not
// in its turn, such as one before initialize. An id has no such text: its quotes are escaped.
func coded(message []byte) []byte {
	head, _, found := bytes.Cut(message[:min(len(message), idBytes)], []byte(`,"error":{"code":0,`))
	if !found || bytes.Count(head, []byte(`":`)) > 2 { // not an error, but a part of a result
		return message
	}
	with := fmt.Appendf(bytes.Clone(head), `,"error":{"code":%d,`, jsonrpc.CodeInvalidRequest)
	rest := message[len(head)+len(`,"error":{"code":0,`):]
	return append(with, bytes.Replace(rest, []byte(tooEarly), []byte(tooEarly+beginFirst), 1)...)
}

// decode returns the message that a text is. Of a request it does not need the library, which decodes more slowly.
func decode(text []byte) (jsonrpc.Message, error) {
	m := membersOf(text)
	if m.method == nil {
		return jsonrpc.DecodeMessage(text)
	}
	req := &jsonrpc.Request{Method: m.name()}
	if m.params.Kind() != 'n' {
		req.Params = json.RawMessage(m.params)
	}
	if m.id == nil {
		return req, nil
	}
	var id any
	if err := json.Unmarshal(m.id, &id); err != nil {
		return nil, err
	}
	var err error
	req.ID, err = jsonrpc.MakeID(id)
	return req, err
}

// kept reports whether the library keeps an id as it is: of numbers it keeps what an int64 does by way of a float64, so
// that two ids with fractions would become one.
func kept(id jsontext.Value) bool {
	if id.Kind() != '0' {
		return id.Kind() == '"'
	}
	var n float64
	return json.Unmarshal(id, &n) == nil && n == math.Trunc(n) && math.Abs(n) < 1<<53
}

// refusal returns the error that answers a request, with a line end. The id is null unless it is a text or a number.
func refusal(id jsontext.Value, code int64, why string) []byte {
	if !answerable(id) {
		id = jsontext.Value("null")
	}
	said, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(why, "\uFFFD"))
	if err != nil {
		panic("unreachable: " + err.Error()) // it is UTF-8
	}
	all := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	all = strconv.AppendInt(append(all, `,"error":{"code":`...), code, 10)
	all = append(append(all, `,"message":`...), said...)
	return append(all, "}}\n"...)
}
