package audit

import (
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/form"
	"github.com/seed-018f16cc/toolbus/internal/members"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Decode is the inverse of [Record.Append]. It is not ok for what is not a record. A record of a newer build is a
// [form.Error].
func Decode(line []byte) (r Record, ok bool, err error) { return Parse(string(line)) }

// Parse is [Decode] of a text, whose memory the strings of the record share.
func Parse(line string) (r Record, ok bool, err error) {
	if isText(line) && r.read(&members.Reader{Rest: line}) && form.Record.Check(r.Form) == nil {
		return r, r.Event != "", nil
	}
	return parseOdd([]byte(line))
}

// parseOdd is Parse of what is not written as [Record.Append] writes it.
func parseOdd(line []byte) (r Record, ok bool, err error) {
	bad := json.Unmarshal(line, &r)
	number := r.Form
	if bad != nil { // perhaps because a newer build means something else by a member
		var head struct {
			Form int `json:"form"`
		}
		if json.Unmarshal(line, &head) != nil {
			return r, false, nil
		}
		number = head.Form
	}
	if number == 0 {
		return r, false, nil
	}
	if err := form.Record.Check(number); err != nil {
		return r, false, err
	}
	return r, bad == nil && r.Event != "", nil
}

// isText reports whether a line may stand in JSON: it is UTF-8, without control characters.
func isText(line string) bool {
	plain := true
	for i := range len(line) {
		if line[i] < ' ' {
			return false
		}
		plain = plain && line[i] < utf8.RuneSelf
	}
	return plain || utf8.ValidString(line)
}

// read reads what [Record.Write] writes, and reports whether it was that.
func (r *Record) read(m *members.Reader) bool {
	r.Form = int(m.Uint(`{"form":`))
	r.Event = Event(m.Text(`,"event":`))
	r.Name = m.Text(`,"event_name":`)
	r.readTime(m)
	r.Tenant = m.Text(`,"tenant":`)
	r.Actor = m.Text(`,"actor_id":`)
	r.RunID = m.Text(`,"run_id":`)
	r.RoleID = m.Text(`,"role_id":`)
	r.LaneID = m.Text(`,"lane_id":`)
	r.ToolName = m.Text(`,"tool_name":`)
	r.Fn = m.TextIf(`,"fn":`)
	r.ToolVersion = m.TextIf(`,"tool_version":`)
	r.Digest = m.TextIf(`,"digest":`)
	r.Determinism = call.Class(m.TextIf(`,"determinism":`))
	r.Ref = m.TextIf(`,"ref":`)
	r.CallID = m.TextIf(`,"call_id":`)
	r.Attempt = int(m.UintIf(`,"attempt":`))
	r.TraceID = m.TextIf(`,"trace_id":`)
	r.ArgumentsHash = m.Text(`,"arguments_hash_sha256":`)
	r.OutputHash = m.TextIf(`,"output_hash_sha256":`)
	r.Contract = m.Text(`,"contract_version":`)
	m.Raw(`,"policy_versions":{}`)
	r.Policies = map[string]string{}
	r.Status = envelope.Status(m.TextIf(`,"status":`))
	r.Code = envelope.Code(m.TextIf(`,"error_code":`))
	r.Effect = envelope.Effect(m.TextIf(`,"effect":`))
	r.DecidedBy = call.Decider(m.TextIf(`,"decided_by":`))
	r.Fence = m.UintIf(`,"fence":`)
	r.DryRun = m.BoolIf(`,"dry_run":`)
	r.LogPart = subjects.Part(m.UintIf(`,"log_part":`))
	r.LogSeq = m.UintIf(`,"log_seq":`)
	r.EventID = m.TextIf(`,"audit_event_id":`)
	r.Salt = m.TextIf(`,"salt":`)
	m.Raw(`}`)
	return !m.Odd && m.Rest == ""
}

// readTime reads what writeTime writes.
func (r *Record) readTime(m *members.Reader) {
	text := m.Text(`,"timestamp_utc":`)
	var room [len(time.RFC3339Nano)]byte
	m.Odd = m.Odd || r.Timestamp.UnmarshalText(append(room[:0], text...)) != nil
}
