package checker

import (
	"fmt"
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
)

// tallied identifies a refusal that was only counted.
type tallied struct {
	id string
	n  uint64
}

// denials checks P4: a refusal is recorded before it is answered, by a record of its own or by the opening record of
// its count.
func denials(x *index) (found []Violation) {
	said := map[tallied]string{} // call id by counted refusal
	closed, found := x.closings()
	for _, a := range x.Asks {
		for _, r := range a.Answers {
			p := r.Provenance
			if !turnedDown(r) || unsendable(r) {
				continue
			}
			if says := x.denied(p, closed, a.MCP); says != "" {
				found = append(found, a.broken("its refusal (%s, %s) %s", code(r), p.AuditEventID, says))
			}
			at := tallied{p.AuditEventID, p.Counted}
			if other := said[at]; p.Counted > 0 && other != "" && other != a.CallID {
				found = append(found, a.broken("its refusal is number %d of count %s, and so is that of %s", at.n, at.id, other))
			}
			said[at] = a.CallID
		}
	}
	return found
}

// unsendable reports whether the client refused a request that it could not send, because the server refused its token
// or the payload store had no room for its input. Requests of chaos are otherwise valid.
func unsendable(r *envelope.Response) bool {
	local := slices.Contains(r.Provenance.PolicyApplied, "client-preflight") && r.Provenance.AuditEventID == ""
	return local && (code(r).Class() == envelope.ClassAuth || code(r) == envelope.CodeStoreFull)
}

// denied returns what is wrong with the record of a refusal, or "". Answers of MCP gateways have no number in a count.
func (x *index) denied(p envelope.Provenance, closed map[string]uint64, door bool) string {
	r, ok := x.gate[p.AuditEventID]
	n, ended := closed[p.AuditEventID]
	switch {
	case !ok:
		return "is not on record"
	case p.Counted == 0 && r.Count != nil && !door:
		return "says of no number in the count that it names"
	case p.Counted > 0 && (r.Count == nil || r.Count.State != audit.CountOpened):
		return "names a record that opens no count"
	case ended && p.Counted > n:
		return fmt.Sprintf("is number %d of a count of %d", p.Counted, n)
	}
	return ""
}

// closings returns the numbers of closed counts, keyed by the id of the opening record. If its dispatcher was killed, a
// count has no closing record.
func (x *index) closings() (closed map[string]uint64, found []Violation) {
	closed = map[string]uint64{}
	for id, r := range x.gate {
		if r.Count == nil || r.Count.State != audit.CountClosed {
			continue
		}
		opening := x.gate[r.Count.Opening]
		if _, twice := closed[r.Count.Opening]; twice || opening.Count == nil || r.Count.Denials == 0 {
			says := fmt.Sprintf("record %s closes the count %s with %d, which is closed or was not opened", id,
				r.Count.Opening, r.Count.Denials)
			found = append(found, Violation{Says: says})
		}
		closed[r.Count.Opening] = r.Count.Denials
	}
	return closed, found
}
