package envelope

import (
	"strings"

	"github.com/seed-018f16cc/toolbus/internal/ijson"
)

// read reads a request; the order of the cases is that of the struct.
func (q *Request) read(r *reader) {
	q.Constraints.DeadlineUnixMS = absent
	r.object(func(name []byte) bool {
		switch string(name) {
		case "call_id":
			match(r, &q.CallID, isUUID)
		case "tool_id":
			match(r, &q.ToolID, isToolID)
		case "tool_version":
			r.text(&q.ToolVersion, 1, MaxLabel)
		case "fn":
			r.text(&q.Fn, 1, MaxID)
		case "input":
			r.raw(&q.Input, 0)
		case "context":
			q.Context.read(r)
		case "constraints":
			q.Constraints.read(r)
		case "provenance":
			r.raw(&q.Provenance, '{')
		case "dry_run":
			r.boolean(&q.DryRun)
		default:
			return false
		}
		return true
	})
	if r.err == nil && !q.complete() {
		r.flag()
	}
}

// remains is what a refused request says of whose it is, as far as each name is well formed; nil where
// it does not say which call it is. Neither its input nor its constraints are in it.
func (q *Request) remains() *Request {
	if !isUUID(q.CallID) {
		return nil
	}
	kept := &Request{CallID: q.CallID}
	said, keep := &q.Context, &kept.Context
	for _, name := range []struct {
		to   *string
		said string
		most int
	}{
		{&kept.ToolVersion, q.ToolVersion, MaxLabel}, {&kept.Fn, q.Fn, MaxID}, {&keep.RunID, said.RunID, MaxID},
		{&keep.RoleID, said.RoleID, MaxID}, {&keep.LaneID, said.LaneID, MaxID},
	} {
		if textWithin(name.said, 0, name.most) {
			*name.to = name.said
		}
	}
	if isUUID(said.TraceID) {
		keep.TraceID = said.TraceID
	}
	return kept
}

// absent marks the one required field whose zero is a valid value.
const absent = -1

// complete reports whether the required fields are there, and what the fields demand of each
// other holds. Of each field by itself read has taken care.
func (q *Request) complete() bool {
	c, k := &q.Context, &q.Constraints
	if k.DeadlineUnixMS == absent {
		k.DeadlineUnixMS = 0
		return false
	}
	required := q.CallID != "" && q.ToolID != "" && q.ToolVersion != "" && q.Fn != "" && len(q.Input) > 0 &&
		c.ActorID != "" && c.TraceID != "" && c.Timezone != "" && c.Env != "" &&
		k.TimeoutMS != 0 && k.IdempotencyKey != ""
	return required && (k.IdempotencyScope != ScopeSession || c.SessionID != "")
}

func (c *Context) read(r *reader) {
	r.object(func(name []byte) bool {
		switch string(name) {
		case "actor_id":
			r.text(&c.ActorID, 1, MaxID)
		case "scopes":
			r.texts(&c.Scopes, MaxScopes, MaxID)
		case "trace_id":
			match(r, &c.TraceID, isUUID)
		case "parent_span_id":
			r.text(&c.ParentSpanID, 0, MaxID)
		case "locale":
			r.text(&c.Locale, 0, MaxLabel)
		case "timezone":
			r.text(&c.Timezone, 1, MaxLabel)
		case "clock":
			oneOf(r, &c.Clock, "monotonic", "wall")
		case "env":
			oneOf(r, &c.Env, "prod", "staging", "dev")
		case "session_id":
			r.text(&c.SessionID, 1, MaxID)
		case "role_id":
			r.text(&c.RoleID, 1, MaxID)
		case "run_id":
			r.text(&c.RunID, 1, MaxID)
		case "lane_id":
			r.text(&c.LaneID, 1, MaxID)
		default:
			c.readMore(r, name)
		}
		return true
	})
}

// readMore reads the members of a context that are no strings, or that nobody here knows.
func (c *Context) readMore(r *reader, name []byte) {
	switch string(name) {
	case "scope":
		c.readScope(r)
	case "confidence":
		c.Confidence = new(float64)
		r.number(c.Confidence, 0, 1)
	case "evidence":
		r.texts(&c.Evidence, MaxEvidence, MaxText)
	default:
		r.keep(&c.Extra, name)
	}
}

func (c *Context) readScope(r *reader) {
	c.Scope = map[string]string{}
	r.object(func(name []byte) bool {
		var value string
		key := string(name)
		r.text(&value, 0, MaxID)
		c.Scope[key] = value
		if !textWithin(key, 1, MaxLabel) || len(c.Scope) > MaxScopeKeys {
			r.flag()
		}
		return true
	})
}

func (k *Constraints) read(r *reader) {
	r.object(func(name []byte) bool {
		switch string(name) {
		case "timeout_ms":
			r.integer(&k.TimeoutMS, MinTimeoutMS, MaxTimeoutMS)
		case "deadline_unix_ms":
			k.DeadlineUnixMS = 0
			r.integer(&k.DeadlineUnixMS, 0, ijson.MaxInteger)
		case "idempotency_key":
			r.text(&k.IdempotencyKey, MinKey, MaxKey)
		case "idempotency_scope":
			oneOf(r, &k.IdempotencyScope, ScopeActor, ScopeSession, ScopeGlobal)
		case "priority":
			oneOf(r, &k.Priority, PriorityLow, PriorityNormal, PriorityHigh)
		case "prefer_streaming":
			r.boolean(&k.PreferStreaming)
		case "cache_key":
			r.text(&k.CacheKey, 1, MaxText)
		case "budget":
			r.raw(&k.Budget, '{')
		case "memory_mb_limit":
			r.integer(&k.MemoryMBLimit, MinMemoryMB, ijson.MaxInteger)
		case "net_allowlist":
			r.texts(&k.NetAllowlist, MaxHosts, MaxText)
		case "retry_policy":
			k.RetryPolicy = new(RetryPolicy)
			k.RetryPolicy.read(r)
		default:
			return false
		}
		return true
	})
}

func (p *RetryPolicy) read(r *reader) {
	var attempts int64
	r.object(func(name []byte) bool {
		switch string(name) {
		case "max_attempts":
			r.integer(&attempts, 1, 100)
		case "base_ms":
			r.integer(&p.BaseMS, 0, MaxTimeoutMS)
		case "cap_ms":
			r.integer(&p.CapMS, 0, MaxTimeoutMS)
		case "jitter":
			oneOf(r, &p.Jitter, "none", "full")
		case "backoff_multiplier":
			r.number(&p.BackoffMultiplier, 1, 100)
		case "jitter_percent":
			r.number(&p.JitterPercent, 0, 100)
		case "retryable_errors":
			r.texts(&p.RetryableErrors, MaxScopes, MaxCode)
		default:
			r.keep(&p.Extra, name)
		}
		return true
	})
	p.MaxAttempts = int(attempts)
}

// isToolID reports whether s is a tool id: names of [a-z0-9._-] (000 §7), joined by "::" when
// the tool has a namespace (002).
func isToolID(s string) bool {
	if len(s) == 0 || len(s) > MaxToolID {
		return false
	}
	for len(s) > 0 {
		part, rest, more := strings.Cut(s, "::")
		if part == "" || more && rest == "" || !isName000(part) {
			return false
		}
		s = rest
	}
	return true
}

func isName000(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
