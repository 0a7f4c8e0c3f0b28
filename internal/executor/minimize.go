package executor

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// listed returns an object with the members of the request's context that names lists, in the order of the request. The
// run, the role and the lane are those of owner: the request may leave them out. It returns nil if there is no such
// member. Most tools list no members, and get no context.
func listed(names []string, context jsontext.Value, owner call.Owner) jsontext.Value {
	if len(names) == 0 {
		return nil
	}
	var kept []ijson.Member
	for _, m := range append(ijson.Members(context), ownerMembers(owner)...) {
		same := func(k ijson.Member) bool { return m.Is(string(k.Plain())) }
		if i := slices.IndexFunc(kept, same); i >= 0 {
			kept[i].Value = m.Value
		} else if slices.ContainsFunc(names, m.Is) {
			kept = append(kept, m)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return ijson.Object(kept...)
}

// ownerMembers returns the members of a context that owner holds.
func ownerMembers(owner call.Owner) (all []ijson.Member) {
	for _, m := range [...]struct{ name, value string }{
		{`"run_id"`, owner.Run}, {`"role_id"`, owner.Role}, {`"lane_id"`, owner.Lane},
	} {
		if m.value != "" {
			all = append(all, ijson.Member{Name: jsontext.Value(m.name), Value: ijson.Quote(m.value)})
		}
	}
	return all
}

// traceparentOf returns the W3C traceparent of the run: that of its span or, without an exporter, a new one.
func (j *job) traceparentOf(owner call.Owner) string {
	if j.traceparent != "" {
		return j.traceparent
	}
	return newTraceparent(owner.Trace)
}

// newTraceparent returns a W3C traceparent for a run that is not exported. It has the trace id of the request, a new
// span id, and the flag "sampled", because Toolbus takes every trace of a request as sampled. If the request names no
// valid trace, the trace id is new, too.
func newTraceparent(traceID string) string {
	id, err := uuid.Parse(traceID)
	if err != nil || id == uuid.Nil {
		binary.BigEndian.PutUint64(id[:8], rand.Uint64())
		binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1) // an id of zeros is invalid
	}
	var span [8]byte
	binary.BigEndian.PutUint64(span[:], rand.Uint64()|1)
	out := make([]byte, 0, len("00-")+2*len(id)+len("-")+2*len(span)+len("-01"))
	out = hex.AppendEncode(append(out, "00-"...), id[:])
	out = hex.AppendEncode(append(out, '-'), span[:])
	return string(append(out, "-01"...))
}
