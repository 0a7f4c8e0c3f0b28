package call

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// ReportedWrite holds the facts of one side effect that a tool reported (003 §Side effect rule). Members that
// the tool leaves out, or that have another type, are zero.
type ReportedWrite struct {
	Kind   string `json:"kind,omitzero"`
	Target string `json:"target,omitzero"`
	Bytes  int64  `json:"bytes,omitzero"`
}

// Limits of the writes of one decision, in bytes. They travel in the header of an event, see size.go.
const (
	maxWrites      = 4 << 10
	maxWriteKind   = 64
	maxWriteTarget = 512
)

// Writes returns the writes of side effects, in their order.
func Writes(effects []jsontext.Value) []ReportedWrite {
	all := make([]ReportedWrite, len(effects))
	for i, effect := range effects {
		var members map[string]jsontext.Value
		if json.Unmarshal(effect, &members) != nil {
			continue // an adapter accepts no such side effect
		}
		all[i] = ReportedWrite{
			Kind: member[string](members["kind"]), Target: member[string](members["target"]),
			Bytes: max(0, member[int64](members["bytes"])),
		}
	}
	return all
}

// member returns the value of a member, or zero if it is missing or has another type.
func member[T any](raw jsontext.Value) T {
	var v, none T
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return none
	}
	return v
}

// NoteWrites returns a JSON list of writes for [Decision.Writes]. It shortens long kinds and targets. left is the
// number of writes, at the end, for which it has no room.
func NoteWrites(all []ReportedWrite) (list string, left int) {
	var b strings.Builder
	for i, w := range all {
		w.Kind, w.Target = ijson.Clip(w.Kind, maxWriteKind), ijson.Clip(w.Target, maxWriteTarget)
		text, err := json.Marshal(w, jsontext.AllowInvalidUTF8(true))
		if err != nil || b.Len()+quoted(string(text)) > maxWrites {
			return closeList(b.String()), len(all) - i
		}
		b.WriteString(",")
		b.Write(text)
	}
	return closeList(b.String()), 0
}

// Written returns the list of d.Writes, and the number of writes that it leaves out. An executor may have written any
// text as the list: what is no list of writes is nil.
func (d Decision) Written() (list jsontext.Value, left int) {
	var all []ReportedWrite
	switch {
	case d.Writes == "":
		return nil, max(0, d.WritesLeft)
	case json.Unmarshal([]byte(d.Writes), &all) != nil:
		return nil, 0
	}
	return jsontext.Value(d.Writes), max(0, d.WritesLeft)
}

// maxVersion is the longest [Decision.Server], in bytes.
const maxVersion = 64

// PlainVersion returns the version that a server reports as at most 64 printable ASCII characters, with _ for others.
func PlainVersion(reported string) string {
	plain := strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune(`"\|%`, r) {
			return '_'
		}
		return r
	}, strings.TrimSpace(reported))
	return plain[:min(len(plain), maxVersion)]
}

// closeList makes a list of items that each have a comma before them.
func closeList(items string) string {
	if items == "" {
		return ""
	}
	return "[" + items[1:] + "]"
}
