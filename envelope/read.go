package envelope

import "github.com/seed-018f16cc/toolbus/internal/members"

// read reads what write writes of a request whose input is somewhere else, or finds it odd.
func (q *Request) read(r *members.Reader) {
	q.CallID = r.Text(`{"call_id":`)
	q.ToolID = r.Text(`,"tool_id":`)
	q.ToolVersion = r.Text(`,"tool_version":`)
	q.Fn = r.Text(`,"fn":`)
	r.Raw(`,"input":null`)
	q.Input = null
	r.Raw(`,"context":`)
	q.Context.read(r)
	r.Raw(`,"constraints":`)
	q.Constraints.read(r)
	q.DryRun = r.BoolIf(`,"dry_run":`)
	r.Raw(`}`)
	r.Odd = r.Odd || r.Rest != ""
}

func (c *Context) read(r *members.Reader) {
	c.ActorID = r.Text(`{"actor_id":`)
	c.Scopes = r.TextsIf(`,"scopes":`)
	c.TraceID = r.Text(`,"trace_id":`)
	c.ParentSpanID = r.TextIf(`,"parent_span_id":`)
	c.Locale = r.TextIf(`,"locale":`)
	c.Timezone = r.Text(`,"timezone":`)
	c.Clock = r.TextIf(`,"clock":`)
	c.Env = r.Text(`,"env":`)
	c.SessionID = r.TextIf(`,"session_id":`)
	c.RoleID = r.TextIf(`,"role_id":`)
	c.RunID = r.TextIf(`,"run_id":`)
	c.LaneID = r.TextIf(`,"lane_id":`)
	c.Evidence = r.TextsIf(`,"evidence":`)
	r.Raw(`}`)
}

func (k *Constraints) read(r *members.Reader) {
	k.TimeoutMS = r.Int(`{"timeout_ms":`)
	k.DeadlineUnixMS = r.Int(`,"deadline_unix_ms":`)
	k.IdempotencyKey = r.Text(`,"idempotency_key":`)
	k.IdempotencyScope = KeyScope(r.TextIf(`,"idempotency_scope":`))
	k.Priority = Priority(r.TextIf(`,"priority":`))
	k.PreferStreaming = r.BoolIf(`,"prefer_streaming":`)
	k.CacheKey = r.TextIf(`,"cache_key":`)
	k.MemoryMBLimit = r.IntIf(`,"memory_mb_limit":`)
	k.NetAllowlist = r.TextsIf(`,"net_allowlist":`)
	r.Raw(`}`)
}
