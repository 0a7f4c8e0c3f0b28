package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

type callFlags struct {
	input, version, key, keyScope, session, priority, callID string
	run, lane, role, answerTo, answer                        string
	timeout                                                  time.Duration
	stream, dryRun                                           bool
	attempts                                                 int
	scope                                                    []string               // KEY=VALUE
	given                                                    func(flag string) bool // is a flag on the command line
}

// keyAuto is the value of the flag --key for the stable key.
const keyAuto = "auto"

// Values of the flags --key-scope and --priority.
var (
	keyScopes  = []envelope.KeyScope{envelope.ScopeActor, envelope.ScopeSession, envelope.ScopeGlobal}
	priorities = []envelope.Priority{envelope.PriorityLow, envelope.PriorityNormal, envelope.PriorityHigh}
)

func callCmd(g *global) *cobra.Command {
	f := &callFlags{}
	cmd := &cobra.Command{
		Use: "call TOOL [FN]", Short: "Call a tool and wait for its outcome", GroupID: "use",
		Long: `Calls a function of a tool and prints its outcome: the output, or with --json the complete response.
Leave FN out if the tool has one function.

The exit code is that of the outcome: 0 success, 10 retryable_error, 11 terminal_error, 12 invalid_request. If the
server cannot be reached before the deadline, the outcome is a retryable_error with "final": false. With --json
--stream, standard output has one JSON value on each line: the chunks, which have a "kind", then the outcome, which
has a "status".

Each invocation uses a fresh idempotency key and is a call of its own. --key K uses yours; --key auto derives a stable
key from tool, function, version range and input. Calls with one key, input and --scope are one call, which runs once:
for 24 h the second one prints the outcome of the first one, unless that is a retryable_error. Then the key is
printed to standard error: call again with it. Once the cause of another error with effect none is repaired, call with
a new key. With one key and another --scope or input the second one is refused. A tool whose manifest requires a key
takes none that nobody has chosen: its calls need --key.

The reference of the call is printed to standard error, and with --json it is provenance.ref of the outcome, too. The
commands result, cancel and why take it.

With the credentials of an operator, --actor ACTOR calls as that actor: the command has a credential of the actor
issued, which is good for 15 minutes and on record, and says so on standard error.`,
		Example: `  toolbus call text.search --input '{"pattern":"NATS"}'
  toolbus call web.fetch fetch --input @request.json --timeout 20s --json
  cat talk.vtt | jq -Rs '{text:.}' | toolbus call transcript.clean --input - --stream
  toolbus call fs.write --input '{"path":"a.txt","content":"hi"}' --key auto --dry-run
  toolbus call refund.issue --lane billing --scope case_id=77 --scope customer=C-9 --input @refund.json
  toolbus call mcp::shop::buy --answer-to REF --answer '{"confirm":{"action":"accept","content":{}}}'`,
		Args: cli.Args(1, 2,
			"a tool, and its function if it has several, as in `toolbus call text.search --input '{…}'`"),
		RunE:              func(cmd *cobra.Command, args []string) error { return callTool(cmd.Context(), g, f, args) },
		ValidArgsFunction: g.completeTools(2),
	}
	fl := cmd.Flags()
	f.given = fl.Changed
	fl.StringVarP(&f.input, "input", "i", "{}",
		"input: `JSON`, @FILE, or - for standard input")
	fl.StringVar(&f.version, "version", "*",
		"range of versions of the tool, for example ^1.2")
	fl.StringVar(&f.key, "key", "", "idempotency key: a fresh one if empty, `K` for yours "+
		"(16 to 256 characters), auto for the stable one")
	fl.StringVar(&f.keyScope, "key-scope", "actor",
		"key scope, the callers that share the key: actor, session or global")
	fl.StringVar(&f.session, "session", "", "`ID` of the session that the call is part of; --key-scope session needs one")
	fl.StringVar(&f.run, "run", "", "`ID` of the run that the call is part of (context.run_id); default: the token's")
	fl.StringVar(&f.lane, "lane", "", "`ID` of the lane of that run (context.lane_id); default: the token's")
	fl.StringVar(&f.role, "role-id", "", "`ID` of the role of the call (context.role_id), one that the token carries; "+
		"default: its only one, or the default role of the bus")
	fl.StringVar(&f.priority, "priority", "normal",
		"priority in the queue of the pool: low, normal or high")
	fl.StringVar(&f.callID, "call-id", "", "call id (a fresh UUID if empty); asking again with the same id and key "+
		"gives the same outcome, so it is asked once, whatever --attempts says")
	fl.DurationVar(&f.timeout, "timeout", 0,
		"deadline of the call, from now, at most 10m; it has its outcome by then (default: the tool's own)")
	fl.BoolVar(&f.stream, "stream", false, "print chunks and progress as they come; those of a run that is made again "+
		"are void")
	fl.BoolVar(&f.dryRun, "dry-run", false,
		"ask the tool for its plan; nothing is changed")
	f.addAnswer(cmd)
	f.addScope(cmd)
	g.completePolicy(cmd)
	completeFlag(cmd, "key-scope", values(keyScopes))
	completeFlag(cmd, "priority", values(priorities))
	fl.IntVar(&f.attempts, "attempts", 3, "attempts if the outcome is a retryable_error; a call of "+
		"a side-effectful tool is tried again only if no executor started it")
	return cmd
}

func callTool(ctx context.Context, g *global, f *callFlags, args []string) error {
	call, err := f.call(ctx, g, args)
	if err != nil {
		return err
	}
	if g.given("actor") {
		warnOfActor(g.env.stderr, g.actor, string(auth.Agent))
	}
	g.lines, g.stable = f.stream, f.key == keyAuto
	began := time.Now()
	c, done, err := g.await(ctx, began.Add(cmp.Or(call.Timeout, unknownTimeout)))
	if refusal, ok := errors.AsType[*toolbus.Error](err); ok {
		return conclude(ctx, g, call, unsent(call, time.Since(began), refusal.Reason()), "")
	}
	if (bus.IsUnreachable(err) || bus.NotNow(err)) && ctx.Err() == nil {
		return conclude(ctx, g, call, unconnected(call, time.Since(began), err), "")
	}
	if err != nil {
		return err
	}
	defer done()
	call.Timeout = remaining(call.Timeout, time.Since(began))
	return perform(ctx, g, c, call, f.stream)
}

// unknownTimeout is the time that a call without --timeout waits for a server. Only a dispatcher knows the tool's
// default timeout.
const unknownTimeout = 5 * time.Second

// remaining returns the rest of a timeout after connecting, at least 1 ms. A timeout below 1 ms, which includes the
// default, stays as it is.
func remaining(timeout, took time.Duration) time.Duration {
	if timeout < time.Millisecond {
		return timeout
	}
	return max(timeout-took, time.Millisecond)
}

// unconnected returns the response to a call for which no server accepted a connection in time. It equals the response
// of the library if the bus does not answer.
func unconnected(call toolbus.Call, took time.Duration, err error) *envelope.Response {
	cause, _, _ := strings.Cut(err.Error(), "\n") // the other lines are advice, which the fix contains
	what, comes := "no server accepted a connection in time", "a server"
	if errors.Is(err, bus.ErrUnanswered) {
		what, comes = "no dispatcher answers", "a dispatcher"
	}
	e := envelope.NewError(envelope.CodeTimeout, what+"; the call was not sent").
		WithFix("call again once " + comes + " is there; " + bus.ConnectHint(err)).
		WithCause(cause)
	return unsent(call, took, e)
}

// unsent returns the response to a call that was not sent because of e.
func unsent(call toolbus.Call, took time.Duration, e *envelope.Error) *envelope.Response {
	p := envelope.Provenance{ToolID: call.Tool, ToolVersion: call.Version, NotStarted: true}
	r := envelope.Failure(cmp.Or(call.CallID, uuid.NewString()), e.WithEffect(envelope.EffectNone), p,
		envelope.Metrics{DurationMS: took.Milliseconds()}).Correlated(call.Context.TraceID)
	r.Key = call.Key
	return r
}

// perform makes a call, and prints its reference, its outcome and, if stream is true, its chunks.
func perform(ctx context.Context, g *global, c *toolbus.Client, call toolbus.Call, stream bool) error {
	var ref string
	var accepted []envelope.Accepted
	call.OnAccepted = func(a envelope.Accepted) {
		accepted = append(accepted, a)
		switch {
		case !g.json:
			joined := ""
			if a.Joined { // another command needs this call id to ask about a call that it only joined
				joined = ", joined, --call-id " + a.CallID
			}
			fmt.Fprintf(g.env.stderr, "accepted: %s (attempt %d%s)\n", a.Ref, a.Attempt, joined)
		case ref == "":
			fmt.Fprintln(g.env.stderr, "ref:", a.Ref)
		}
		ref = a.Ref
	}
	if stream {
		call.OnChunk = chunkPrinter(g)
	}
	resp, err := toolbus.Outcome(c.Call(ctx, call))
	if err != nil {
		if errors.Is(err, context.Canceled) && ref != "" {
			about := g.about(ref)
			fmt.Fprintf(g.env.stderr, "the call goes on: `toolbus cancel %s` ends it, `toolbus result %s` shows its outcome\n",
				about, about)
		}
		return err
	}
	if ref == "" && hasLog(resp) {
		call.Key = resp.Key
		if ref, err = reference(ctx, c, call); err != nil {
			fmt.Fprintln(g.env.stderr, "toolbus: the reference of this call is not known:", err) // its outcome is known
		} else if g.json {
			fmt.Fprintln(g.env.stderr, "ref:", ref)
		}
	}
	sayWhyAgain(ctx, g, c, accepted)
	nameTimeout(ctx, g, c, call.Context.RoleID, resp)
	nameRepair(g, resp)
	nameKey(resp, ref)
	return conclude(ctx, g, call, resp, ref)
}

// conclude prints the outcome of a call and ends the command. If the user interrupts a wait before a retry, it prints
// the last outcome, but the exit code is that of an interruption.
func conclude(ctx context.Context, g *global, call toolbus.Call, resp *envelope.Response, ref string) error {
	if resp.Status == envelope.RetryableError && resp.Key != "" { // a fresh key is not known anywhere else
		fmt.Fprintln(g.env.stderr, "key:", cli.EscapeCell(resp.Key))
	}
	// "list" is in the place of a tool, where the library suggests no commands, and a bus may have a tool of that name.
	if e := resp.Error; e != nil && e.Code == envelope.CodeToolUnknown && call.Tool == "list" {
		e.WithFix("`toolbus tools list` lists the tools, and `toolbus calls list --open` the calls that have no outcome yet")
	}
	err := printOutcome(g, resp, ref)
	if chosen := call.Key != "" || g.stable; chosen && keepsError(resp) && !g.json {
		fmt.Fprintln(g.env.stderr, "the key keeps this outcome: once its cause is repaired, call with a new key")
	}
	if ctx.Err() != nil && errors.Is(err, exitError(exitRetryable)) {
		fmt.Fprintln(g.env.stderr, "toolbus: interrupted: it was not tried again")
		return exitError(exitInterrupted)
	}
	return err
}

// keepsError reports whether a response is an error with effect none that all further calls with its key get. A call
// with another key repeats any other effect.
func keepsError(r *envelope.Response) bool {
	return r.Provenance.Final && r.Provenance.Attempt > 0 && r.Status != envelope.Success &&
		r.Status != envelope.RetryableError && r.Error.Details.Effect == envelope.EffectNone
}

// hasLog reports whether the call of a response has, or may have, a log. It has none if the request was refused or not
// sent; then a request for its reference would only delay the caller.
func hasLog(r *envelope.Response) bool {
	unsent := r.Error != nil && r.Error.Details.Effect == envelope.EffectNone
	return r.Provenance.Attempt > 0 || !r.Provenance.Final && !unsent
}

// reference returns the reference of a call that was not accepted by this request, because it had its outcome already
// or no dispatcher answered. It computes the reference as dispatchers do.
func reference(ctx context.Context, c *toolbus.Client, call toolbus.Call) (string, error) {
	req := envelope.Request{
		ToolID: call.Tool, Fn: call.Function, DryRun: call.DryRun,
		Context:     envelope.RequestContext{ActorID: c.Options().Actor, SessionID: call.Context.SessionID},
		Constraints: envelope.Constraints{IdempotencyKey: call.Key, IdempotencyScope: call.KeyScope},
	}
	if req.Fn == "" {
		t, err := c.DescribeTool(ctx, envelope.DescribeRequest{Tool: call.Tool, RoleID: call.Context.RoleID})
		if err != nil {
			return "", err
		}
		for fn := range t.Functions { // the tool has one function, because the call was admitted without a name
			req.Fn = envelope.NameToCall(fn)
		}
	}
	return subjects.Key{Tool: req.ToolID, ID: envelope.CallKeyID(c.Options().Tenant, &req)}.Ref(), nil
}

// quoted quotes a word for a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// chunkPrinter returns a function that prints chunks. When the tool runs again, it prints that the chunks so far are
// void. In JSON, the fence of each chunk shows this.
func chunkPrinter(g *global) func(envelope.Chunk) error {
	run := uint64(0)
	return func(c envelope.Chunk) error {
		if run != 0 && c.Fence != run && !g.json {
			fmt.Fprintln(g.env.stderr, "the tool runs again: the chunks so far are void")
		}
		run = c.Fence
		return printChunk(g, c)
	}
}

// longestTimeout is the longest timeout that a request can have.
const longestTimeout = envelope.MaxTimeoutMS * time.Millisecond

// fits reports whether a text has from least to most characters.
func fits(text string, least, most int) bool {
	n := utf8.RuneCountInString(text)
	return least <= n && n <= most
}

// check returns a usage error if the flags are invalid.
func (f *callFlags) check() error {
	switch {
	case f.callID != "" && uuid.Validate(f.callID) != nil:
		return usagef("--call-id %q is not a UUID: leave the flag out for a fresh one", f.callID)
	case !slices.Contains(priorities, envelope.Priority(f.priority)):
		return usagef("--priority is low, normal or high, not %q", f.priority)
	case !slices.Contains(keyScopes, envelope.KeyScope(f.keyScope)):
		return usagef("--key-scope is actor, session or global, not %q", f.keyScope)
	case envelope.KeyScope(f.keyScope) == envelope.ScopeSession && f.session == "":
		return usagef("--key-scope session needs --session ID: callers with the same session share the key")
	case f.given("timeout") && (f.timeout < time.Millisecond || f.timeout > longestTimeout):
		return usagef("--timeout is %s: use 1ms to %s, or leave the flag out for the tool's own",
			timer.Text(f.timeout), timer.Text(longestTimeout))
	case f.key != "" && f.key != keyAuto && !fits(f.key, envelope.MinKey, envelope.MaxKey):
		return usagef("--key has %d characters: use %d to %d, auto for the stable one, or leave the flag out for a fresh one",
			utf8.RuneCountInString(f.key), envelope.MinKey, envelope.MaxKey)
	case f.attempts < 1:
		return usagef("--attempts is 1 or more, not %d", f.attempts)
	}
	return nil
}

// named refuses empty ids. An unset variable in a shell leaves a flag empty, and the call would then not belong to the
// run.
func (f *callFlags) named() error {
	for flag, id := range map[string]string{"run": f.run, "lane": f.lane, "role-id": f.role} {
		if id == "" && f.given(flag) {
			return usagef("--%s is empty: name an id, or leave the flag out", flag)
		}
	}
	return nil
}

// call builds the call from arguments and flags.
func (f *callFlags) call(ctx context.Context, g *global, args []string) (toolbus.Call, error) {
	if err := cmp.Or(f.check(), f.named()); err != nil {
		return toolbus.Call{}, err
	}
	if len(args) > 1 && strings.HasPrefix(strings.TrimSpace(args[1]), "{") {
		return toolbus.Call{}, usagef("%.40q is in the place of a function: put the input behind --input", args[1])
	}
	if tool, version, ok := strings.Cut(args[0], "@"); ok {
		return toolbus.Call{}, usagef("%.140q is not a tool id: name a version as in %s --version %s", args[0], quoted(tool),
			quoted(version))
	}
	scope, err := scopeKeys(f.scope)
	if err != nil {
		return toolbus.Call{}, err
	}
	input, err := cli.Input(ctx, g.env.stdin, f.input)
	if err != nil {
		return toolbus.Call{}, err
	}
	call := toolbus.Call{
		Tool: args[0], Version: f.version, Input: input, Timeout: f.timeout, Key: f.key, CallID: f.callID,
		KeyScope: envelope.KeyScope(f.keyScope), Priority: envelope.Priority(f.priority), DryRun: f.dryRun,
		Retry: &envelope.RetryPolicy{MaxAttempts: f.attempts},
		Context: envelope.RequestContext{
			SessionID: f.session, RunID: f.run, LaneID: f.lane, RoleID: f.role, Scope: scope,
		},
	}
	if len(args) > 1 {
		call.Function = args[1]
	}
	if call.Context.MCPInput, err = f.answered(ctx, g); err != nil {
		return toolbus.Call{}, err
	}
	if f.key == keyAuto {
		call.Key = ""
	}
	return call, nil
}
