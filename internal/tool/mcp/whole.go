package mcp

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// wholeOf returns the result of a successful call, with an output of at most most bytes. The effect took place, so a
// part that cannot be kept causes a warning and not an error.
func wholeOf(a client.Answer, most int64) (r tool.Result) {
	r.Output, r.Warnings = kept(a, most)
	if a.Content == nil || a.Content.Kind() == 'n' {
		r.Output = with(r.Output, "content", jsontext.Value("[]"))
	}
	aside := tool.Result{Output: r.Output}
	told(a.Meta[envelope.MetaSideEffects], &aside.SideEffects)
	var more []string
	told(a.Meta[envelope.MetaWarnings], &more)
	aside.Warnings = append(slices.Clone(r.Warnings), more...)
	if err := aside.Check(); err != nil {
		r.Warnings = append(r.Warnings, fmt.Sprintf("side effects and warnings of the server were left out: %v", err))
		return r
	}
	return aside
}

// failed returns the result of a failed call for the details of its error, and warnings about what was cut or replaced.
func failed(a client.Answer) (jsontext.Value, []string) { return kept(a, envelope.MaxToolResult) }

// kept returns the result of an answer in at most most bytes. It removes members that belong to the connection or to
// Toolbus. It adds the JSON texts of values that I-JSON, the JSON of the bus, cannot represent.
func kept(a client.Answer, most int64) (jsontext.Value, []string) {
	exact, warnings := apart(a.Repairs)
	members := ijson.Members(a.Result)
	members = slices.DeleteFunc(members, func(m ijson.Member) bool { return m.Is("resultType") })
	meta := -1
	for i, m := range members {
		if m.Is("_meta") {
			meta = i
			members[i].Value = foreign(m.Value)
		}
	}
	switch {
	case exact != nil && meta >= 0 && members[meta].Value.Kind() == '{':
		members[meta].Value = with(members[meta].Value, envelope.MetaExact, exact)
	case exact != nil:
		members = slices.DeleteFunc(members, func(m ijson.Member) bool { return m.Is("_meta") })
		members = append(members, member("_meta", ijson.Object(member(envelope.MetaExact, exact))))
	case meta >= 0 && string(members[meta].Value) == "{}" && len(a.Meta) > 0: // it held only members of Toolbus
		members = slices.Delete(members, meta, meta+1)
	}
	result := ijson.Object(members...)
	if int64(len(result)) <= most {
		return result, warnings
	}
	result, says := cut(members, int(max(most, 0)))
	return result, append(warnings, says)
}

func member(name string, value jsontext.Value) ijson.Member {
	return ijson.Member{Name: ijson.Quote(name), Value: value}
}

// with returns an object with the member name set to value.
func with(object jsontext.Value, name string, value jsontext.Value) jsontext.Value {
	members := slices.DeleteFunc(ijson.Members(object), func(m ijson.Member) bool { return m.Is(name) })
	return ijson.Object(append(members, member(name, value))...)
}

// foreign returns _meta without the members of Toolbus.
func foreign(meta jsontext.Value) jsontext.Value {
	members := ijson.Members(meta)
	others := slices.DeleteFunc(slices.Clone(members), func(m ijson.Member) bool {
		return bytes.HasPrefix(m.Plain(), []byte(envelope.MetaPrefix))
	})
	if len(others) == len(members) {
		return meta
	}
	return ijson.Object(others...)
}

// Limits of reports about values that I-JSON cannot represent.
const (
	maxExact = 32 << 10 // bytes of their JSON texts and pointers
	maxSaid  = 40       // warnings
	maxWas   = 160      // bytes of a value or pointer in a warning
)

// apart returns the JSON texts of values that I-JSON cannot represent, by pointer, and warnings about all values that
// were replaced.
func apart(of ijson.Repairs) (exact jsontext.Value, warnings []string) {
	texts, left := map[string]string{}, maxExact
	var others []ijson.Repair
	for _, r := range of.List {
		size := len(r.Pointer) + len(r.Was)
		if !r.Exact() || size > left {
			others = append(others, r)
			continue
		}
		left -= size
		texts[r.Pointer] = string(r.Was)
	}
	warnings = tool.Replaced(ijson.Repairs{List: others, More: of.More}, 0, "")
	if len(texts) == 0 {
		return nil, warnings
	}
	exact, err := json.Marshal(texts, json.Deterministic(true))
	if err != nil {
		panic("unreachable: " + err.Error()) // exact texts and pointers are valid UTF-8
	}
	for _, pointer := range slices.Sorted(maps.Keys(texts)) {
		if len(warnings) >= maxSaid {
			warnings = append(warnings, envelope.MetaInexact+"further values; _meta has them all")
			break
		}
		was := ijson.Clip(texts[pointer], maxWas)
		warnings = append(warnings, fmt.Sprintf(envelope.MetaInexact+"%s: the server sent %s", ijson.Clip(pointer,
			maxWas), was))
	}
	return exact, warnings
}
