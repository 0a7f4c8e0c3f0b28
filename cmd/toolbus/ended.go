package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// endedCall is an attempt that has an outcome, as the audit record has it.
type endedCall struct {
	Ref       string          `json:"ref"`
	Tool      string          `json:"tool"`
	Fn        string          `json:"fn"`
	Version   string          `json:"tool_version"`
	Tenant    string          `json:"tenant"`
	Actor     string          `json:"actor"`
	CallID    string          `json:"call_id"`
	Attempt   int             `json:"attempt"`
	Ended     time.Time       `json:"ended"`
	Status    envelope.Status `json:"status"`
	Code      envelope.Code   `json:"error_code,omitzero"`
	Effect    envelope.Effect `json:"effect"`
	DecidedBy call.Decider    `json:"decided_by"`
	// TookMS is the time from the request to the outcome in milliseconds, or nil if the request is not on record.
	TookMS *int64 `json:"took_ms,omitzero"`
}

// endings reads the attempts that have an outcome from the audit record, as its filters select them.
type endings struct {
	from                reader.Source
	tenant, tool, actor string
	status              envelope.Status
	code                envelope.Code // or class
	slow                time.Duration // only calls that took that long
	since               time.Time
	lead                time.Duration           // time before since from which requests are read
	until               time.Time               // where past ends and next begins; zero if next is not called
	requested           map[attemptOf]time.Time // of attempts whose outcome was not read yet
	most                int                     // size of requested from which on old ones are dropped
}

// attemptOf identifies an attempt in the record.
type attemptOf struct {
	tenant, ref string
	n           int
}

// endedSince returns endings with the filters of the flags of all commands, and of --since. now is the bus time.
func endedSince(
	ctx context.Context, g *global, from reader.Source, since string,
) (e *endings, now time.Time, err error) {
	if now, err = from.Now(ctx); err != nil {
		return nil, now, err
	}
	e = &endings{from: from, lead: lead, requested: map[attemptOf]time.Time{}}
	if g.given("tenant") {
		e.tenant = g.tenant
	}
	if g.given("actor") {
		e.actor = g.actor
	}
	e.since, err = pointInTime(since, now)
	return e, now, err
}

// lead is how long a call may take so that its request is read, and how long requests are kept.
const lead = time.Hour

// past calls take for each call that the filters select, in the order of their outcomes. It returns errBehind after
// that if the newest may be missing.
func (e *endings) past(ctx context.Context, take func(endedCall) error) error {
	behind := upToDate(ctx, e.from)
	if behind != nil && !errors.Is(behind, errBehind) {
		return behind
	}
	return cmp.Or(e.read(ctx, reader.Filter{Since: e.since.Add(-e.lead)}, take), behind)
}

// next calls take for the calls that end from e.until on, as they are recorded, until ctx ends. It follows past.
func (e *endings) next(ctx context.Context, take func(endedCall) error) error {
	e.since, e.until = e.until, time.Time{}
	return e.read(ctx, reader.Filter{Since: e.since, Follow: true}, take)
}

func (e *endings) read(ctx context.Context, records reader.Filter, take func(endedCall) error) error {
	records.Tenant, records.Tool, records.Actor = e.tenant, e.tool, e.actor
	for r, err := range reader.Replay(ctx, e.from, records) {
		switch {
		case err != nil:
			return err
		case r.Event == audit.ToolRequested:
			e.request(&r)
		case r.DecidedBy == "": // not the outcome of an attempt
		case !e.until.IsZero() && !r.Timestamp.Before(e.until): // for next
		default:
			if c := e.ending(&r); e.selects(&c) {
				if err := take(c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// request keeps the time of a request. It stays if next read the outcome before it, from another stream.
func (e *endings) request(r *audit.Record) {
	if len(e.requested) >= e.most {
		maps.DeleteFunc(e.requested, func(_ attemptOf, at time.Time) bool { return at.Before(r.Timestamp.Add(-lead)) })
		e.most = 2*len(e.requested) + defaultListed
	}
	e.requested[attemptOf{r.Tenant, r.Ref, r.Attempt}] = r.Timestamp
}

func (e *endings) ending(r *audit.Record) endedCall {
	c := endedCall{
		Ref: r.Ref, Tool: r.ToolName, Fn: r.Fn, Version: r.ToolVersion, Tenant: r.Tenant, Actor: r.Actor,
		CallID: r.CallID, Attempt: r.Attempt, Ended: r.Timestamp, Status: r.Status, Code: r.Code, Effect: r.Effect,
		DecidedBy: r.DecidedBy,
	}
	key := attemptOf{r.Tenant, r.Ref, r.Attempt}
	if at, ok := e.requested[key]; ok {
		c.TookMS = new(max(0, r.Timestamp.Sub(at).Milliseconds()))
		delete(e.requested, key)
	}
	return c
}

func (e *endings) selects(c *endedCall) bool {
	return !c.Ended.Before(e.since) && (e.status == "" || c.Status == e.status) && reader.HasCode(c.Code, e.code) &&
		(e.slow == 0 || c.TookMS != nil && *c.TookMS >= e.slow.Milliseconds())
}
