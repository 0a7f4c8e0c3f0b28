package main

import (
	"context"
	"errors"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
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

// endedFilter selects calls that have ended since a time.
type endedFilter struct {
	tenant, tool, actor string
	status              envelope.Status
	code                envelope.Code
	slow                time.Duration // only calls that took that long
	since               time.Time
}

// endedSince returns the filter of the flags of all commands, and of --since.
func endedSince(ctx context.Context, g *global, from reader.Source, since string) (f endedFilter, err error) {
	now, err := from.Now(ctx)
	if err != nil {
		return f, err
	}
	if g.given("tenant") {
		f.tenant = g.tenant
	}
	if g.given("actor") {
		f.actor = g.actor
	}
	f.since, err = pointInTime(since, now)
	return f, err
}

// lead is the time before the filter's from which requests are read, for the calls that had begun then.
const lead = time.Hour

// attemptOf identifies an attempt in the record.
type attemptOf struct {
	tenant, ref string
	n           int
}

// eachEnded calls take for each call that the filter selects, in the order of their outcomes. It returns errBehind
// after that if the newest may be missing.
func eachEnded(ctx context.Context, from reader.Source, f endedFilter, take func(endedCall)) error {
	behind := upToDate(ctx, from)
	if behind != nil && !errors.Is(behind, errBehind) {
		return behind
	}
	requested := map[attemptOf]time.Time{}
	records := reader.Filter{Since: f.since.Add(-lead), Tenant: f.tenant, Tool: f.tool, Actor: f.actor}
	for r, err := range reader.Replay(ctx, from, records) {
		key := attemptOf{r.Tenant, r.Ref, r.Attempt}
		switch {
		case err != nil:
			return err
		case r.LogSeq > 0 && r.Status == "":
			requested[key] = r.Timestamp
			continue
		case r.DecidedBy == "": // not the outcome of an attempt
			continue
		}
		c := endedCall{
			Ref: r.Ref, Tool: r.ToolName, Fn: r.Fn, Version: r.ToolVersion, Tenant: r.Tenant, Actor: r.Actor,
			CallID: r.CallID, Attempt: r.Attempt, Ended: r.Timestamp, Status: r.Status, Code: r.Code, Effect: r.Effect,
			DecidedBy: r.DecidedBy,
		}
		if at, ok := requested[key]; ok {
			c.TookMS = new(max(0, r.Timestamp.Sub(at).Milliseconds()))
			delete(requested, key)
		}
		if f.selects(&c) {
			take(c)
		}
	}
	return behind
}

func (f *endedFilter) selects(c *endedCall) bool {
	return !c.Ended.Before(f.since) && (f.status == "" || c.Status == f.status) && (f.code == "" || c.Code == f.code) &&
		(f.slow == 0 || c.TookMS != nil && *c.TookMS >= f.slow.Milliseconds())
}
