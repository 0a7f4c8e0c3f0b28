package mcp

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// reply is a result of tools/call. The result of an MCP server stays as the server sent it, except for _meta members
// and a last content block that the gateway adds. It is kept as JSON, because the types of the library would drop
// unknown members.
type reply struct {
	sdk.ResultBase // _meta members that the gateway and the library add

	server     jsontext.Value   // the result of an MCP server, an object; nil for a result of the bus
	content    []jsontext.Value // the blocks of a result of the bus; blocks before those of a server
	last       string           // the text of a last block that the bus adds; "" adds no block
	structured jsontext.Value   // of a result of the bus; may be nil
	isError    bool
	modern     bool // the protocol has the member resultType

	question *envelope.InputQuestion // of a result that asks the client for input; otherwise nil
}

// block returns a block of text.
func block(text string) jsontext.Value {
	return ijson.Object(member("type", ijson.Quote("text")), member("text", ijson.Quote(text)))
}

func member(name string, value jsontext.Value) ijson.Member {
	return ijson.Member{Name: ijson.Quote(name), Value: value}
}

// MarshalJSON implements [json.Marshaler].
func (r *reply) MarshalJSON() ([]byte, error) {
	if r.question != nil {
		meta, err := r.meta(jsontext.Value("{}"))
		return ijson.Object(append(asks(r.question), member("_meta", meta))...), err
	}
	content, meta := r.content, jsontext.Value(nil)
	var others []ijson.Member // of the result, besides content and _meta
	var dropped jsontext.Value
	for _, m := range ijson.Members(r.server) {
		switch {
		case m.Is("content") && m.Value.Kind() == '[':
			content = append(slices.Clip(content), ijson.Items(m.Value)...)
		case m.Is("_meta"):
			meta = m.Value
		case m.Is("resultType"), m.Is("isError") && r.isError:
		case m.Is("structuredContent") && !r.modern && m.Value.Kind() != '{' && m.Value.Kind() != 'n':
			dropped = m.Value // clients of older protocols accept only objects
		default:
			others = append(others, m)
		}
	}
	if dropped != nil && len(content) == 0 { // otherwise the client would get no content
		content = []jsontext.Value{block(textOf(dropped))}
	}
	if r.last != "" {
		content = append(slices.Clip(content), block(r.last))
	}
	var all []ijson.Member
	if r.modern {
		all = append(all, member("resultType", ijson.Quote(resultComplete)))
	}
	if !slices.ContainsFunc(others, func(m ijson.Member) bool { return m.Is("content") }) {
		all = append(all, member("content", ijson.Array(content...)))
	}
	all = append(all, others...)
	if r.structured != nil {
		all = append(all, member("structuredContent", r.structured))
	}
	if r.isError {
		all = append(all, member("isError", jsontext.Value("true")))
	}
	meta, err := r.meta(meta)
	if err == nil && meta != nil {
		all = append(all, member("_meta", meta))
	}
	return ijson.Object(all...), err
}

// meta returns the _meta of a server's result with the added members. A member of the server wins over an added one,
// but its members with the prefix of Toolbus are removed.
func (r *reply) meta(server jsontext.Value) (jsontext.Value, error) {
	members := ijson.Members(server)
	members = slices.DeleteFunc(members, func(m ijson.Member) bool {
		return strings.HasPrefix(string(m.Plain()), envelope.MetaPrefix)
	})
	for _, name := range slices.Sorted(maps.Keys(r.Meta)) {
		if slices.ContainsFunc(members, func(m ijson.Member) bool { return m.Is(name) }) {
			continue
		}
		value, err := json.Marshal(r.Meta[name])
		if err != nil {
			return nil, err
		}
		members = append(members, member(name, value))
	}
	if members == nil && server == nil {
		return nil, nil
	}
	return ijson.Object(members...), nil
}

// exactly returns a result as its MCP server sent it: it puts the JSON texts of MetaExact, which I-JSON cannot hold, in
// their places. ok is false if a place is missing, as in a result that was cut.
func exactly(result jsontext.Value) (as jsontext.Value, ok bool) {
	var texts map[string]string
	for _, m := range ijson.Members(result) {
		if !m.Is("_meta") {
			continue
		}
		for _, own := range ijson.Members(m.Value) {
			if own.Is(envelope.MetaExact) && json.Unmarshal(own.Value, &texts) != nil {
				return result, false
			}
		}
	}
	if len(texts) == 0 {
		return result, true
	}
	root, left := &place{}, 0
	for pointer, text := range texts {
		value := jsontext.Value(text)
		if !value.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			return result, false
		}
		root.at(jsontext.Pointer(pointer)).text = value
		left++
	}
	as = root.put(result, &left)
	return as, left == 0
}

// place is a node of a tree of JSON pointers: a value to replace, or the parent of such values.
type place struct {
	text  jsontext.Value // nil for a value that stays
	below map[string]*place
}

// at returns the place of a pointer.
func (p *place) at(pointer jsontext.Pointer) *place {
	for token := range pointer.Tokens() {
		if p.below == nil {
			p.below = map[string]*place{}
		}
		if p.below[token] == nil {
			p.below[token] = &place{}
		}
		p = p.below[token]
	}
	return p
}

// put returns v with the texts in their places, and decrements *left for each one.
func (p *place) put(v jsontext.Value, left *int) jsontext.Value {
	switch {
	case p == nil:
		return v
	case p.text != nil && v.Kind() == '"': // each place holds a string
		*left--
		return p.text
	case v.Kind() == '{':
		members := ijson.Members(v)
		for i, m := range members {
			members[i].Value = p.below[string(m.Plain())].put(m.Value, left)
		}
		return ijson.Object(members...)
	case v.Kind() == '[':
		items := ijson.Items(v)
		for i, item := range items {
			items[i] = p.below[strconv.Itoa(i)].put(item, left)
		}
		return ijson.Array(items...)
	}
	return v
}
