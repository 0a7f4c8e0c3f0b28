package envelope

import (
	"bytes"
	"slices"

	"github.com/seed-018f16cc/toolbus/internal/members"
)

// Requests and responses are written by hand, as every call needs some of each; what is rare in one leaves the
// whole to the JSON library. Their members are in the order of the structs.

// write writes q as encode does, or finds it odd. A payload in the place of its input is written as it is.
func (q *Request) write(w *members.Writer, payload []byte) {
	w.Text(`{"call_id":`, q.CallID)
	w.Text(`,"tool_id":`, q.ToolID)
	w.Text(`,"tool_version":`, q.ToolVersion)
	w.Text(`,"fn":`, q.Fn)
	writePayload(w, `,"input":`, q.Input, payload)
	w.Raw(`,"context":`)
	q.Context.write(w)
	w.Raw(`,"constraints":`)
	q.Constraints.write(w)
	w.ValueIf(`,"provenance":`, q.Provenance)
	w.BoolIf(`,"dry_run":`, q.DryRun)
	w.Raw(`}`)
}

func (c *Context) write(w *members.Writer) {
	w.Text(`{"actor_id":`, c.ActorID)
	w.TextsIf(`,"scopes":`, c.Scopes)
	w.Text(`,"trace_id":`, c.TraceID)
	w.TextIf(`,"parent_span_id":`, c.ParentSpanID)
	w.TextIf(`,"locale":`, c.Locale)
	w.Text(`,"timezone":`, c.Timezone)
	w.TextIf(`,"clock":`, c.Clock)
	w.Text(`,"env":`, c.Env)
	w.TextIf(`,"session_id":`, c.SessionID)
	w.TextIf(`,"role_id":`, c.RoleID)
	w.TextIf(`,"run_id":`, c.RunID)
	w.TextIf(`,"lane_id":`, c.LaneID)
	w.Odd = w.Odd || c.Scope != nil || c.Confidence != nil || c.Extra != nil
	w.TextsIf(`,"evidence":`, c.Evidence)
	w.Raw(`}`)
}

func (k *Constraints) write(w *members.Writer) {
	w.Int(`{"timeout_ms":`, k.TimeoutMS)
	w.Int(`,"deadline_unix_ms":`, k.DeadlineUnixMS)
	w.Text(`,"idempotency_key":`, k.IdempotencyKey)
	w.TextIf(`,"idempotency_scope":`, string(k.IdempotencyScope))
	w.TextIf(`,"priority":`, string(k.Priority))
	w.BoolIf(`,"prefer_streaming":`, k.PreferStreaming)
	w.TextIf(`,"cache_key":`, k.CacheKey)
	w.ValueIf(`,"budget":`, k.Budget)
	w.IntIf(`,"memory_mb_limit":`, k.MemoryMBLimit)
	w.TextsIf(`,"net_allowlist":`, k.NetAllowlist)
	w.Odd = w.Odd || k.RetryPolicy != nil
	w.Raw(`}`)
}

// write writes s as encode does, or finds it odd. A payload in the place of its output is written as it is.
func (s *Response) write(w *members.Writer, payload []byte) {
	w.Text(`{"call_id":`, s.CallID)
	w.Text(`,"status":`, string(s.Status))
	if s.Output != nil {
		writePayload(w, `,"output":`, s.Output, payload)
	}
	w.Odd = w.Odd || s.Error != nil || s.SideEffects != nil || s.CommitToken != nil
	w.Raw(`,"metrics":`)
	s.Metrics.write(w)
	w.Raw(`,"provenance":`)
	s.Provenance.write(w)
	w.TextsIf(`,"warnings":`, s.Warnings)
	w.Raw(`}`)
}

func (m *Metrics) write(w *members.Writer) {
	w.Odd = w.Odd || m.Extra != nil
	w.Int(`{"duration_ms":`, m.DurationMS)
	w.Int(`,"cpu_ms":`, m.CPUMS)
	w.Int(`,"memory_peak_mb":`, m.MemoryPeakMB)
	w.Int(`,"queue_ms":`, m.QueueMS)
	w.Int(`,"attempts":`, int64(m.Attempts))
	w.Raw(`}`)
}

func (p *Provenance) write(w *members.Writer) {
	w.Odd = w.Odd || p.Extra != nil
	w.Text(`{"tool_id":`, p.ToolID)
	w.Text(`,"tool_version":`, p.ToolVersion)
	w.TextIf(`,"digest":`, p.Digest)
	w.Int(`,"attempt":`, int64(p.Attempt))
	w.UintIf(`,"fence":`, p.Fence)
	w.Bool(`,"replayed":`, p.Replayed)
	w.Bool(`,"final":`, p.Final)
	w.TextIf(`,"audit_event_id":`, p.AuditEventID)
	w.UintIf(`,"counted":`, p.Counted)
	w.BoolIf(`,"not_started":`, p.NotStarted)
	if p.Chunks != nil {
		w.Int(`,"chunks":{"count":`, p.Chunks.Count)
		w.Text(`,"digest":`, p.Chunks.Digest)
		w.Raw(`}`)
	}
	if p.OutputRef != nil {
		w.Text(`,"output_ref":{"sha256":`, p.OutputRef.SHA256)
		w.Int(`,"bytes":`, p.OutputRef.Bytes)
		w.TextIf(`,"pool":`, p.OutputRef.Pool)
		w.Raw(`}`)
	}
	w.TextsIf(`,"policy_applied":`, p.PolicyApplied)
	w.Raw(`}`)
}

// writePayload writes an input or output.
func writePayload(w *members.Writer, name string, v, payload []byte) {
	if payload == nil {
		w.Value(name, v)
		return
	}
	w.Raw(name)
	w.Bytes = append(w.Bytes, payload...)
}

// worthCutting is the size from which an envelope is read and written without its payload.
const worthCutting = 4 << 10

// splice appends rest to b, with payload in the place of the null that the first member of this name has.
// Strings cannot look like it, since their quotes are escaped.
func splice(b, rest []byte, name string, payload []byte) []byte {
	place := []byte(`,"` + name + `":null`)
	i := bytes.Index(rest, place) + len(place) - len(null)
	b = slices.Grow(b, len(rest)+len(payload))
	b = append(b, rest[:i]...)
	b = append(b, payload...)
	return append(b, rest[i+len(null):]...)
}
