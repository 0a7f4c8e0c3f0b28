package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/client"
)

// checkOpen is the status of an item that was not checked. Says of the check gives the reason, for example that Toolbus
// does not enforce the item yet.
const checkOpen envelope.CheckStatus = "open"

// contractItem is one item of the checklists in section 13 of docs/tool_contract.md. Its check returns the status and
// the reason, and a fix if the item is not kept. If check is nil, nothing enforces the item yet, or missing names the
// part that nothing enforces.
type contractItem struct {
	name, text string
	check      func(*examined) (status envelope.CheckStatus, says, fix string)
	missing    string
}

// contractItems returns the items in the order of the document.
func contractItems() []contractItem {
	return []contractItem{
		{"manifests", "Tool manifest found and valid", (*examined).manifests, ""},
		{"versions", "Exact version resolved to a pinned digest", (*examined).versions, ""},
		{"sandbox", "Sandbox created with declared limits and allowlists", nil, ""},
		{"health", "Health checks passing", nil, "readiness and liveness of tools"},
		{"secrets", "Secrets mounted for declared scopes only", nil, ""},
		{"telemetry", "Observability wiring active", nil, "metrics"},
		{"evidence", "Confidence >= 0.9 or external verification attached", nil, ""},
		{"inputs", "Inputs validated against request schema", (*examined).schemas, ""},
		{"keys", "Idempotency key computed", (*examined).keys, ""},
		{"limits", "Realistic timeout and memory set", (*examined).timeout, ""},
		{"network", "Net allowlist aligned with tool manifest", nil, ""},
		{"traces", "Trace ids set", (*examined).traceIDs, ""},
		{"outputs", "Response schema validated", (*examined).schemas, ""},
		{"statuses", "Status is one of four allowed values", (*examined).statuses, ""},
		{"back-off", "If retryable, backoff applied as hinted", (*examined).backOff, ""},
		{"side effects", "Side effects either committed with token or rolled back", nil, ""},
		{"emitted", "Logs, traces, metrics emitted", nil, "metrics"},
	}
}

// contract checks the items of the contract that can be checked without a call, for the tools that a dispatcher listed
// in d. It returns nil if no dispatcher has answered.
func contract(
	ctx context.Context, c *client.Client, js jetstream.JetStream, d envelope.DescribeResponse,
) (checks []Check) {
	if d.NowUnixMS == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	e := examine(ctx, c, d.Tools)
	e.js = js
	for _, i := range contractItems() {
		status, says, fix := checkOpen, "not enforced yet", ""
		if i.missing != "" {
			says += ": " + i.missing
		}
		if i.check != nil {
			status, says, fix = i.check(e)
		}
		checks = append(checks, Check{Name: "contract: " + i.name, Status: status, Says: i.text + ": " + says, Fix: fix})
	}
	return append(checks, declaredOnly(d.Tools)...)
}

// declaredOnly returns a check that names the fields in manifests that have no effect yet, or nil without such a field.
func declaredOnly(tools []envelope.ToolInfo) []Check {
	count := map[string]int{} // tools by field
	for _, t := range tools {
		for _, name := range t.DeclaredOnly {
			count[name]++
		}
	}
	if len(count) == 0 {
		return nil
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		all = append(all, fmt.Sprintf("%s (%s)", name, countTools(count[name])))
	}
	return []Check{{Name: "declared only", Status: checkOpen,
		Says: "do not rely on these fields of manifests, which have no effect yet: " + strings.Join(all, ", ")}}
}

// examined holds what the checks of the contract look at.
type examined struct {
	ctx    context.Context
	client *client.Client
	js     jetstream.JetStream
	tools  []envelope.ToolInfo // as listed, without schemas

	described int                  // number of tools whose schemas were read
	broken    []string             // reasons why the schemas of a tool could not be read
	drafts    [2]*envelope.Request // two requests that this client would send for the same call, not sent
	of        envelope.ToolInfo    // the tool of the drafts
}

// maxExamined is the largest number of tools whose schemas doctor reads: each is a request to a dispatcher.
const maxExamined = 20

// examine reads the schemas of the first tools, and drafts requests for the first one.
func examine(ctx context.Context, c *client.Client, tools []envelope.ToolInfo) *examined {
	e := &examined{ctx: ctx, client: c, tools: tools}
	for _, t := range tools[:min(len(tools), maxExamined)] {
		info, err := c.ToolIn(ctx, envelope.DescribeRequest{Tool: t.ToolID, All: true})
		if err != nil {
			e.broken = append(e.broken, fmt.Sprintf("%s: %v", t.ToolID, err))
			continue
		}
		e.described++
		if e.drafts[0] == nil && len(info.Functions) > 0 {
			e.draft(info)
		}
	}
	return e
}

// draft makes two requests for a function of the tool. It makes none if the client refuses them, for example because
// the tool requires a key of the caller.
func (e *examined) draft(info envelope.ToolInfo) {
	fn := envelope.NameToCall(slices.Min(slices.Collect(maps.Keys(info.Functions))))
	for i := range e.drafts {
		req, err := e.client.Draft(e.ctx, client.Call{Tool: info.ToolID, Function: fn})
		if err != nil {
			e.drafts = [2]*envelope.Request{}
			return
		}
		e.drafts[i], e.of = req, info
	}
}

// drafted returns the first draft, or nil and the reason why no request was drafted.
func (e *examined) drafted() (req *envelope.Request, why string) {
	if e.drafts[1] == nil {
		return nil, "not checked: no tool can be called without a key"
	}
	return e.drafts[0], ""
}

func (e *examined) manifests() (envelope.CheckStatus, string, string) {
	if len(e.tools) == 0 {
		return checkOpen, "not checked: the dispatcher has no tools", ""
	}
	return CheckOK, countTools(len(e.tools)) + ", with manifests that the dispatcher has accepted", ""
}

func (e *examined) versions() (envelope.CheckStatus, string, string) {
	var bad []string
	for _, t := range e.tools {
		if _, err := semver.StrictNewVersion(t.Version); err != nil || t.Digest == "" {
			bad = append(bad, t.ToolID)
		}
	}
	if len(bad) > 0 {
		return CheckFailed, "no exact version or no digest: " + strings.Join(bad[:min(len(bad), maxDifferences)], " "),
			"give each tool an exact semver, and update the dispatchers"
	}
	return CheckOK, countTools(len(e.tools)) + " with one version and one digest each", ""
}

// schemas checks that the client can compile the schemas, with which it and executors validate.
func (e *examined) schemas() (envelope.CheckStatus, string, string) {
	if len(e.broken) > 0 {
		return CheckFailed, strings.Join(e.broken[:min(len(e.broken), maxDifferences)], "; "),
			"run `toolbus tools show` for the tool, and see the log of the dispatcher"
	}
	return CheckOK, fmt.Sprintf("the schemas of %s compile, of %d", countTools(e.described), len(e.tools)), ""
}

func (e *examined) keys() (envelope.CheckStatus, string, string) {
	req, why := e.drafted()
	switch {
	case req == nil:
		return checkOpen, why, ""
	case len(req.Constraints.IdempotencyKey) < envelope.MinKey,
		req.Constraints.IdempotencyKey == e.drafts[1].Constraints.IdempotencyKey:
		return CheckFailed, "two calls of this client share a key, or have none", "report this as a fault of Toolbus"
	}
	return CheckOK, "each call of this client has a fresh key", ""
}

func (e *examined) timeout() (envelope.CheckStatus, string, string) {
	req, why := e.drafted()
	if req == nil {
		return checkOpen, why, ""
	}
	says := fmt.Sprintf("the timeout of %s is %d ms, at most %d ms; not enforced yet: memory", e.of.ToolID,
		req.Constraints.TimeoutMS, e.of.TimeoutMaxMS)
	if req.Constraints.TimeoutMS < 1 || e.of.TimeoutMaxMS > 0 && req.Constraints.TimeoutMS > e.of.TimeoutMaxMS {
		return CheckFailed, says, "correct the limits in the manifest of the tool"
	}
	return CheckOK, says, ""
}

func (e *examined) traceIDs() (envelope.CheckStatus, string, string) {
	req, why := e.drafted()
	switch {
	case req == nil:
		return checkOpen, why, ""
	case req.Check() != nil || req.Context.TraceID == e.drafts[1].Context.TraceID:
		return CheckFailed, "a call of this client has no trace id of its own", "report this as a fault of Toolbus"
	}
	return CheckOK, "each call of this client has a trace id", ""
}

// checkedRecords is the number of audit records whose status doctor looks at.
const checkedRecords = 100

func (e *examined) statuses() (envelope.CheckStatus, string, string) {
	from, done, err := reader.OpenAs(e.ctx, e.js, e.client.Tenant, e.client.Actor, e.client.Token)
	if err != nil {
		return checkOpen, "not checked: the audit record cannot be read: " + err.Error(), ""
	}
	defer done()
	n := 0
	for r, err := range reader.Replay(e.ctx, from, reader.Filter{Last: checkedRecords}) {
		switch {
		case err != nil:
			return checkOpen, "not checked: the audit record cannot be read: " + err.Error(), ""
		case r.Status == "":
		case !slices.Contains(envelope.Statuses(), r.Status):
			return CheckFailed, fmt.Sprintf("the call %s ended with %q", r.CallID, r.Status),
				"update this program if a newer dispatcher wrote the record"
		default:
			n++
		}
	}
	return CheckOK, fmt.Sprintf("%d of the newest %d audit records have one of the four", n, checkedRecords), ""
}

func (e *examined) backOff() (envelope.CheckStatus, string, string) {
	return checkOpen, "not checked: doctor makes no calls", ""
}
