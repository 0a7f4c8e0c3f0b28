package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/health"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Check is the result of one check of a deployment, with a fix if it did not pass.
type Check = envelope.Check

// Values of Check.Status. An item of docs/tool_contract.md that was not checked has the status "open".
const (
	CheckOK      = envelope.CheckOK
	CheckWarning = envelope.CheckWarning
	CheckFailed  = envelope.CheckFailed
)

// Diagnose checks a deployment from outside: the server, the topology, the executors, the dispatchers, the rights of
// the connection and the clock of this machine. It then checks the items of docs/tool_contract.md that need no call.
// The arguments url, o and connect are those of a caller. What the caller may not read itself a dispatcher reads for
// it. Bound the time with ctx.
func Diagnose(ctx context.Context, url string, o toolbus.ClientOptions, connect ...nats.Option) []Check {
	return causesFirst(diagnose(ctx, url, o, connect))
}

func diagnose(ctx context.Context, url string, o toolbus.ClientOptions, connect []nats.Option) []Check {
	of := subjects.Owner{
		Tenant: cmp.Or(o.Tenant, client.DefaultTenant), Actor: cmp.Or(o.Actor, client.DefaultActor),
	}
	if o.Token != nil {
		connect = append(connect, nats.TokenHandler(o.Token))
	}
	p, unreadable := whose(o.Token)
	hears := of.Inbox()
	if p != nil && p.Bound() {
		hears = p.Inbox()
	}
	nc, err := bus.DialCaller(url, natsserver.Doctor, append([]nats.Option{
		nats.CustomInboxPrefix(hears),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // a missing right becomes a finding
	}, connect...)...)
	if err != nil {
		return []Check{envelope.Failed("server", err.Error(), bus.ConnectHint(err))}
	}
	defer nc.Close()
	checks := []Check{envelope.Well("server", fmt.Sprintf("nats-server %s at %s", nc.ConnectedServerVersion(),
		bus.Redacted(nc.ConnectedUrl())))}
	js, err := jetstream.New(nc)
	if err != nil {
		return append(checks, envelope.Failed("jetstream", err.Error(), "enable JetStream on the server"))
	}
	c, err := client.New(nc, client.Options{Tenant: o.Tenant, Actor: o.Actor, Token: o.Token})
	if err != nil {
		return append(checks, envelope.Failed("dispatchers", err.Error(), ""))
	}
	defer func() { _ = c.Close() }()
	inbox, err := rpc.OpenInbox(nc, c.Tenant, c.Actor, o.Token)
	if err != nil {
		return append(checks, envelope.Failed("answers", err.Error(), ""))
	}
	defer func() { _ = inbox.Close() }() // after an error, it ends with the connection
	if no := inbox.SubscriptionRefusal(); no != nil {
		return append(checks, envelope.Failed("answers", no.Message+": "+no.Cause, no.Fix))
	}
	if unreadable != nil {
		return append(checks, envelope.Failed("rights", unreadable.Error(), "name the file with your token by --credentials"))
	}
	checks = append(checks, rights(ctx, nc, p))
	d, said := diagnoseDispatchers(ctx, c, inbox)
	inside := func() ([]Check, error) { return look(ctx, js, c.BusTime(), d), nil }
	if err := bus.CheckLevel(ctx, js); bus.IsPermissionDenied(err) {
		inside = func() ([]Check, error) { return asked(ctx, inbox, err) }
	} else if err != nil {
		return append(checks, envelope.Failed("jetstream", err.Error(), "")) // err includes the fix
	}
	found, err := inside()
	if isForbidden(err) && p != nil {
		return slices.Concat(checks, []Check{hiddenFrom(p.Role)}, said, contract(ctx, c, js, d))
	}
	if err != nil {
		found = notLooked(err, p != nil)
	}
	return slices.Concat(checks, found, said, operated(ctx, inbox, d, p == nil), contract(ctx, c, js, d))
}

// look returns the checks of streams and executors. d is what a dispatcher has answered.
func look(ctx context.Context, js jetstream.JetStream, now time.Time, d envelope.DescribeResponse) []Check {
	found := health.Look(ctx, js, now, d.Tools, d.Waiting)
	if d.NowUnixMS == 0 { // no dispatcher has answered
		found = append(found, health.Behind(ctx, js)...)
	}
	return found
}

// notLooked returns the failed check of streams and executors that cannot be looked at.
func notLooked(err error, withToken bool) []Check {
	fix := asOperator
	if withToken {
		fix = "run doctor with --secrets-dir DIR, which asks no dispatcher for them"
	}
	return []Check{envelope.Failed("jetstream", "streams and executors are not looked at: "+err.Error(), fix)}
}

// operated returns the checks of what dispatchers tell operators alone, or nil if no dispatcher has answered.
func operated(ctx context.Context, inbox *rpc.Inbox, d envelope.DescribeResponse, tokenless bool) []Check {
	if d.NowUnixMS == 0 {
		return nil
	}
	return slices.Concat(diagnoseEach(ctx, inbox, tokenless), diagnoseLogs(ctx, inbox), diagnoseLocks(ctx, inbox))
}

// isForbidden reports whether a dispatcher refused a request because of the role of its sender.
func isForbidden(err error) bool {
	refused, ok := errors.AsType[*operation.Refusal](err)
	return ok && refused.Reason.Code == envelope.CodeForbidden
}

// hiddenFrom returns the warning that a role may not ask for some checks.
func hiddenFrom(role auth.Role) Check {
	return envelope.Doubtful("operator's checks", fmt.Sprintf("not made, because a token of the role %s may not ask for "+
		"them: streams, servers, executors, pools, audit record, authentication, tools and settings of each dispatcher, "+
		"damaged logs, safety locks", role),
		"run doctor with an operator's token: --credentials FILE, or with --secrets-dir DIR")
}

// whose returns the principal that the token names, without verifying the token. It returns nil if there is no token.
func whose(token func() string) (*auth.Principal, error) {
	if token == nil || token() == "" {
		return nil, nil
	}
	p, err := auth.Inspect(token())
	return &p, err
}

// asked returns the checks that a dispatcher makes for this user, who may not make them itself because of cause.
func asked(ctx context.Context, inbox *rpc.Inbox, cause error) ([]Check, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	seen, refusal, err := operation.Health.Ask(ctx, inbox, struct{}{})
	switch {
	case refusal != nil:
		return nil, &operation.Refusal{Reason: refusal}
	case err != nil:
		return nil, fmt.Errorf("this user may not ask about JetStream (%w), and no dispatcher says: %w", cause, err)
	}
	return seen.Checks, nil
}

// countTools returns a number of tools in words.
func countTools(n int) string {
	if n == 1 {
		return "1 tool"
	}
	return fmt.Sprintf("%d tools", n)
}

// askTime bounds each request to dispatchers.
const askTime = 5 * time.Second

// asOperator is the fix if this user lacks the rights for a check.
const asOperator = "run doctor as a user who may look at everything: docs/operations.md, \"Without tokens\", calls " +
	"it operator"

// offered names the tools that were not imported. It is no warning: somebody may not want them.
func offered(tools map[string][]string) Check {
	var each []string
	for _, server := range slices.Sorted(maps.Keys(tools)) {
		each = append(each, server+": "+strings.Join(tools[server], ", "))
	}
	return envelope.Well("new tools", "servers have tools that were not imported; import a server again to add its "+
		"tools: "+strings.Join(each, "; "))
}

// waiting returns the warning that tools wait for approval. why is the first part of its text.
func waiting(why string, ids []string) Check {
	named := strings.Join(ids[:min(len(ids), maxDifferences)], " ")
	if len(ids) > maxDifferences {
		named += " …"
	}
	return envelope.Doubtful("approvals", why+named,
		"see the changes with `toolbus tools approve`, and take them over with `toolbus tools approve "+named+"`")
}

// diagnosePolicy returns the check that the bus has a policy, whose digests a dispatcher has named.
func diagnosePolicy(v envelope.PolicyVersions) Check {
	if v == (envelope.PolicyVersions{}) {
		return envelope.Failed("policy", "none can be used: every call is refused",
			"write one with `toolbus policy init`, and put it in force with `toolbus policy push`; if `toolbus policy "+
				"history` lists one, the log of the dispatcher says what is wrong with it")
	}
	return envelope.Well("policy", "in force")
}

// diagnoseDispatchers asks a dispatcher for its description, and returns it with the checks of dispatchers, clock,
// policy, approvals and call log.
func diagnoseDispatchers(ctx context.Context, c *client.Client, inbox *rpc.Inbox) (
	d envelope.DescribeResponse, _ []Check) {
	d, err := c.Describe(ctx, envelope.DescribeRequest{All: true})
	switch refused, ok := errors.AsType[*operation.Refusal](err); {
	case ok && refused.Reason.Code == envelope.CodePolicyVersion:
		return d, []Check{envelope.Failed("policy", refused.Error()+": every call is refused", refused.Reason.Fix)}
	case errors.Is(err, rpc.ErrNoDispatcher):
		return d, []Check{envelope.Failed("dispatchers", err.Error(), "start one with `toolbus dispatcher` or "+
			"`toolbus dev`; the log of one that runs says why it does not serve, and so does doctor with --secrets-dir")}
	case errors.Is(err, nats.ErrPermissionViolation):
		no := inbox.NotAllowed(err)
		return d, []Check{envelope.Failed("dispatchers", no.Message+": "+no.Cause, no.Fix)}
	case err != nil:
		return d, []Check{envelope.Failed("dispatchers", err.Error(),
			"one is there and does not answer: look at its log, or start another")}
	}
	tools, offset := d.Tools, c.BusTime().Sub(c.Now())
	clock := envelope.Well("clock", fmt.Sprintf("bus time is %s from here", offset.Round(time.Millisecond)))
	if offset.Abs() > time.Second {
		clock.Status, clock.Fix = CheckWarning, "the clocks differ; Toolbus reasons in bus time, but logs will not line "+
			"up: check NTP"
	}
	checks := []Check{envelope.Well("dispatchers", "answering, "+countTools(len(tools))), clock,
		diagnosePolicy(d.Policies)}
	if ids := envelope.Changed(tools); len(ids) > 0 {
		checks = append(checks, waiting("changed at their servers, and not called until they are approved: ", ids))
	}
	if ids := envelope.Differing(tools); len(ids) > 0 {
		checks = append(checks, waiting("changed for some executors, which do not call them; their servers are not of one "+
			"version everywhere: ", ids))
	}
	if len(d.Offered) > 0 {
		checks = append(checks, offered(d.Offered))
	}
	if d.SilentMS > 0 { // after a failed write to its disk, the server answers only reads until it is restarted
		silence := (time.Duration(d.SilentMS) * time.Millisecond).Round(time.Second)
		checks = append(checks, envelope.Failed("call log",
			fmt.Sprintf("the server has taken no write for %s: nothing is admitted or decided", silence),
			"see what the server logs: is its disk full? Make room and restart it"))
	}
	return d, checks
}
