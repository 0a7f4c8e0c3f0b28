package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// connect opens a client of the bus, and returns the function that closes it.
type connect func(ctx context.Context) (c *toolbus.Client, done func(), err error)

// about completes a command that sends a request about a call to a dispatcher. Its argument is the reference of a call.
func about(cmd *cobra.Command, over connect, complete cobra.CompletionFunc, callID string,
	ask func(ctx context.Context, c *toolbus.Client, q envelope.CallRef) error) *cobra.Command {
	q := envelope.CallRef{}
	cmd.GroupID = "use"
	cmd.Flags().StringVar(&q.CallID, "call-id", "", callID)
	cmd.Args, cmd.ValidArgsFunction = cli.Args(1, 1,
		"one call reference, such as text_2esearch.0kd3…, which `toolbus call` prints"), complete
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, done, err := over(cmd.Context())
		if err != nil {
			return err
		}
		defer done()
		q.Ref = args[0]
		return ask(cmd.Context(), c, q)
	}
	return cmd
}

// refused prints a refusal of a request or of the credentials, and returns its exit code. It returns other errors
// unchanged.
func refused(g *global, err error) error {
	refusal, ok := errors.AsType[*toolbus.Error](err)
	if !ok {
		return err
	}
	if g.json {
		_ = cli.WriteJSON(g.env.stdout, refusal.Reason()) // the exit code shows the refusal in any case
	} else {
		cli.PrintError(g.env.stderr, refusal.Reason(), "")
	}
	return exitError(exitCode(refusal.Code().Status()))
}

func resultCmd(g *global) *cobra.Command {
	return about(&cobra.Command{
		Use: "result REF", Short: "Show the outcome of a call",
		Long: `Shows the outcome of a call. REF is the reference that "call" printed to standard error. An agent may ask about
its own calls, an operator about all calls of its tenant.

Exit codes: 0 success, 10 retryable_error, 11 terminal_error, 12 invalid_request, 13 the call has no outcome yet.`,
		Example: "  toolbus result text_2esearch.0kd3…  # the reference that `call` printed\n" +
			"  toolbus result text_2esearch.0kd3… --credentials operator.token  # the call of an agent",
	}, g.asker, g.completeRefs(g.asker, true), "`ID` of the call whose outcome is wanted (default: the newest attempt)",
		func(ctx context.Context, c *toolbus.Client, q envelope.CallRef) error {
			a, err := c.State(ctx, q)
			switch {
			case err != nil:
				return err
			case a.Response != nil:
				nameTimeout(ctx, g, c, "", a.Response)
				nameRepair(g, a.Response)
				nameKey(a.Response, q.Ref)
				if !g.json { // to show an outcome is no replay
					a.Response.Provenance.Replayed = false
				}
				return printOutcome(g, a.Response, q.Ref)
			}
			err = g.print(a, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "still open: attempt %d, deadline %s\n", a.Accepted.Attempt,
					time.UnixMilli(a.Accepted.DeadlineUnixMS).Format(time.RFC3339))
				return err
			})
			return cmp.Or(err, error(exitError(exitOpen)))
		})
}

// tooLate reports whether a call had its outcome before it could be cancelled, and was not cancelled before.
func tooLate(a envelope.CancelResponse) bool {
	r := a.Response
	cancelled := r != nil && r.Error != nil &&
		(r.Error.Code == envelope.CodeCancelled || r.Error.Code == envelope.CodeCancelledUnknown)
	return a.Phase == "decided" && !cancelled
}

// told returns the result of a cancel as text. A call without a claim may have run without the dispatcher's knowledge.
func told(a envelope.CancelResponse) string {
	r := a.Response
	if a.Phase == "decided" && r != nil && r.Error != nil {
		return fmt.Sprintf("the call has ended already, with %s, effect %s", r.Error.Code, r.Error.Details.Effect)
	}
	if a.Phase == "queued" && r != nil && r.Error != nil && r.Error.Details.Effect != envelope.EffectNone {
		return "cancelled; no executor said that it was running it"
	}
	return became[a.Phase]
}

var became = map[string]string{
	"queued":   "cancelled before it started",
	"running":  "cancelled while it ran; its processes were killed",
	"detached": "you no longer wait for it; the call goes on for its owner",
	"decided":  "the call has ended already, with success",
}

func cancelCmd(g *global) *cobra.Command {
	return about(&cobra.Command{
		Use: "cancel REF", Short: "Cancel a call",
		Example: `  toolbus cancel text_2esearch.0kd3…  # the reference that call printed
  toolbus cancel text_2esearch.0kd3… --call-id 3f0c…  # leave a call that you only joined`,
		Long: `Cancels a call. A waiting call never starts; the executor kills a running one. The output says which of
them it was. The exit code is 14 if the call has ended with another outcome, and 0 if it was cancelled before.
With --call-id of a call that only joined another one, that caller stops waiting and the call continues.
Only its caller cancels a call. With the credentials of an operator give --actor ACTOR, which "calls list" shows.`,
	}, g.client, g.completeRefs(g.client, false), "`ID` of the call to cancel (default: that of the newest attempt)",
		func(ctx context.Context, c *toolbus.Client, q envelope.CallRef) error {
			a, err := c.Cancel(ctx, q)
			if err != nil {
				adviseActor(g, err)
				return err
			}
			return cmp.Or(g.say(a, told(a)), exitIf(tooLate(a), exitTooLate))
		})
}

// adviseActor tells an operator how to cancel the call of another actor.
func adviseActor(g *global, err error) {
	if toolbus.CodeOf(err) != envelope.CodeNotFound || g.given("actor") {
		return
	}
	a, err := g.access()
	if err != nil || a.Credentials == "" {
		return
	}
	if held, err := heldBy(a.Credentials); err == nil && held.Principal().Role == auth.Operator {
		fmt.Fprintln(g.env.stderr, "note: an operator cancels a call as its caller: add --actor ACTOR, as `toolbus calls "+
			"list` shows it")
	}
}

func whyCmd(g *global) *cobra.Command {
	cmd := about(&cobra.Command{
		Use: "why REF|ID", Short: "Explain what a call waits for, why it ended as it did, or why it was denied",
		Long: `Explains a call, and names the role, the lane and the policy by which it was allowed. REF is the reference that
"call" printed to standard error. An agent may ask about its own calls, an operator about all calls of its tenant.

For a denied call give the ID of its record instead, the audit_event_id of the answer: then the output has the step of
the gateway contract and the rule that denied the call, and the digests of the policy that decided. The record has the
true reason also if the caller may not know the tool, so only operators and auditors can read it.`,
		Example: "  toolbus why text_2esearch.0kd3…  # the reference that `call` printed\n" +
			"  toolbus why gate.0a18bd2a-ba2f.4 --credentials operator.token  # a denial",
	},
		g.asker, g.completeRefs(g.asker, true), "`ID` of the call to explain (default: that of the newest attempt)",
		func(ctx context.Context, c *toolbus.Client, q envelope.CallRef) error {
			sentence, err := c.Why(ctx, q)
			if err != nil {
				return err
			}
			return g.say(envelope.WhyResponse{Sentence: sentence}, cli.EscapeText(sentence))
		})
	ofCall := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if strings.HasPrefix(args[0], audit.GatePrefix) && !isRef(args[0]) {
			return g.reading(cmd.Context(), func(from reader.Source) error {
				return g.whyDenied(cmd.Context(), from, args[0])
			})
		}
		return ofCall(cmd, args)
	}
	return cmd
}

// isRef reports whether a text has the form of a call reference. The id of a tool may begin like that of a denial.
func isRef(text string) bool {
	_, err := subjects.ParseRef(text)
	return err == nil
}
