package envelope

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// remains is what a refused request says of whose it is, as far as each name is well formed; nil where
// it does not say which call it is. Neither its input nor its constraints are in it.
func remains(doc jsontext.Value) *Request {
	var q claims
	_ = json.Unmarshal(doc, &q) // what was read before an error stays
	said := &q.Context.is
	if !jsonschema.IsUUID(q.CallID.is) {
		return nil
	}
	kept := &Request{CallID: q.CallID.is}
	keep := &kept.Context
	for _, name := range []struct {
		to   *string
		said string
		most int
	}{
		{&kept.ToolVersion, q.ToolVersion.is, MaxLabel}, {&kept.Fn, q.Fn.is, MaxID}, {&keep.RunID, said.RunID.is, MaxID},
		{&keep.RoleID, said.RoleID.is, MaxID}, {&keep.LaneID, said.LaneID.is, MaxID},
	} {
		if utf8.RuneCountInString(name.said) <= name.most {
			*name.to = name.said
		}
	}
	if jsonschema.IsUUID(said.TraceID.is) {
		keep.TraceID = said.TraceID.is
	}
	return kept
}

// claims are the members of a request that remains keeps.
type claims struct {
	CallID      loose[string] `json:"call_id"`
	ToolVersion loose[string] `json:"tool_version"`
	Fn          loose[string] `json:"fn"`
	Context     loose[struct {
		TraceID loose[string] `json:"trace_id"`
		RunID   loose[string] `json:"run_id"`
		RoleID  loose[string] `json:"role_id"`
		LaneID  loose[string] `json:"lane_id"`
	}] `json:"context"`
}

// loose is a string or an object, and left out where the document has something else.
type loose[T any] struct{ is T }

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (l *loose[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	want := jsontext.Kind('{')
	if _, text := any(l.is).(string); text {
		want = '"'
	}
	if dec.PeekKind() != want {
		return dec.SkipValue()
	}
	return json.UnmarshalDecode(dec, &l.is)
}
