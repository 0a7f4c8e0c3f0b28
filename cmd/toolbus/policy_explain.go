package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

func policyExplain(g *global) *cobra.Command {
	input := ""
	cmd := &cobra.Command{
		Use: "explain CALL", Short: "Repeat the recorded decision about a call", Args: cli.Args(1, 1, "one call"),
		ValidArgsFunction: g.completeRefs(g.asker, true),
		Long: `Reads the decision about a call from the audit record, fetches the policy set that it names, and decides the
call again, step by step. CALL is a call reference, a call id, or the audit_event_id of an answer. The record of a
denial has the state of the run, and the keys of the scope that the call needed. That of an allowed call has neither. Of
the arguments a record has only the hash; --input gives them. A step that depends on what is missing is not repeated,
and the output says so. The build of the tool must be the recorded one. If the tool gets strings as the values that they
spell, the decision is about these values. Needs an operator's token.

Exit codes: 0 each repeated step ended as recorded, 15 a step ended otherwise, 16 the record names no policy, the set is
not stored any more, or the step that denied the call could not be repeated.`,
		Example: "  toolbus policy explain gate.0a18bd2a-ba2f.4  # the audit_event_id of a denial\n" +
			"  toolbus policy explain text_2esearch.0kd3… --input arguments.json --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := readArguments(input)
			if err != nil {
				return err
			}
			return g.explainPolicy(cmd.Context(), args[0], arguments)
		},
	}
	cmd.Flags().StringVar(&input, "input", "",
		"`FILE` with the arguments of the call, whose SHA-256 the record has")
	return cmd
}

// readArguments reads the arguments of a call, or returns nil without a file.
func readArguments(file string) (jsontext.Value, error) {
	if file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	return jsontext.Value(content), err
}

func (g *global) explainPolicy(ctx context.Context, id string, arguments jsontext.Value) error {
	var r *audit.Record
	err := g.reading(ctx, func(from reader.Source) (err error) {
		r, err = decisionOf(ctx, from, id)
		return err
	})
	switch {
	case err != nil:
		return err
	case r == nil:
		return noRecord("the record has no decision about " + id)
	case arguments != nil && envelope.ArgumentsHash(arguments) != r.ArgumentsHash:
		return usagef("--input is not the input of the call: its SHA-256 is %s, and the record has %s",
			envelope.ArgumentsHash(arguments), r.ArgumentsHash)
	}
	e := newExplained(r)
	if r.Policies == (envelope.PolicyVersions{}) {
		e.fail("the record names no policy: none had decided the call in this step, or its build recorded none")
		return g.printExplained(e)
	}
	err = g.operating(ctx, func(c *admin.Client) error { return e.repeat(ctx, c, r, arguments) })
	if err != nil {
		return err
	}
	return g.printExplained(e)
}

// decisionOf returns the record of the decision about a call, or nil.
func decisionOf(ctx context.Context, from reader.Source, id string) (*audit.Record, error) {
	if behind := upToDate(ctx, from); behind != nil && !errors.Is(behind, errBehind) {
		return nil, behind
	}
	if r, err := decisionAbout(ctx, from, id); err != nil || r != nil || !strings.Contains(id, ".") {
		return r, err
	}
	r, err := newestRecord(ctx, from, reader.Filter{EventID: id})
	switch {
	case err != nil || r == nil || decides(r):
		return r, err
	case r.CallID == "": // it is about no call
		return nil, nil
	}
	return decisionAbout(ctx, from, r.CallID) // r is the outcome of the call
}

// decisionAbout returns the record of the decision about the call with this reference or call id, or nil.
func decisionAbout(ctx context.Context, from reader.Source, id string) (*audit.Record, error) {
	if strings.HasPrefix(id, audit.GatePrefix) && !isRef(id) {
		return nil, nil
	}
	for _, event := range []audit.Event{audit.ToolAllowed, audit.ToolDenied, audit.ToolJoined, audit.ToolReplayed} {
		if r, err := newestRecord(ctx, from, reader.Filter{Call: id, Event: event}); err != nil || r != nil {
			return r, err
		}
	}
	return nil, nil
}

// decides reports whether a record is about a decision of the policy.
func decides(r *audit.Record) bool {
	switch r.Event {
	case audit.ToolAllowed, audit.ToolDenied, audit.ToolJoined, audit.ToolReplayed:
		return true
	}
	return false
}

// repeat decides the recorded call again by the set that its record names.
func (e *explained) repeat(ctx context.Context, c *admin.Client, r *audit.Record, arguments jsontext.Value) error {
	d, err := c.Policy(ctx, admin.PolicyVersion{Versions: r.Policies})
	if toolbus.CodeOf(err) == envelope.CodeNotFound {
		e.fail("the set is not stored any more: the history has the newest 64 versions")
		return nil
	}
	if err != nil {
		return err
	}
	set, err := policy.Parse(policy.Documents(d))
	if err != nil {
		return err
	}
	manifests, unknown, err := e.builds(ctx, c, r)
	if err != nil {
		return err
	}
	s, err := policy.Compile(set, manifests)
	if problems, ok := errors.AsType[tool.Problems](err); ok {
		e.fail("the set does not fit the tool that the bus has now: " + problems.Error())
		return nil
	}
	if err != nil {
		return err
	}
	if len(manifests) > 0 {
		arguments = e.coerced(manifests[0], r.Fn, arguments)
	}
	q := policy.Question{
		Role: r.RoleID, Lane: r.LaneID, Tool: r.ToolName, Tenant: r.Tenant, Actor: r.Actor, RunID: r.RunID, Input: arguments,
	}
	if b := r.Basis; b != nil {
		q = recalled(b, r.Policies).Recall(q)
		e.Recorded.Facts = true
	}
	e.Repetition = s.Repeat(q, e.Recorded, unknown)
	return nil
}

// recalled returns the facts that a record has. Versions are those of the policy that decided.
func recalled(b *audit.Basis, versions envelope.PolicyVersions) policy.Facts {
	f := policy.Facts{Scope: b.Scope} // a hash is empty only if the value is
	if run := b.Run; run != nil {
		f.Run = &policy.RunFacts{
			Foreign: run.Foreign, State: policy.RunState(run.State), Pinned: run.Policies, Unfit: run.Unfit,
		}
		if run.Policies == (envelope.PolicyVersions{}) {
			f.Run.Pinned = versions
		}
	}
	return f
}

// coerced returns the arguments as the tool gets them, since dispatchers decide about these.
func (e *explained) coerced(m *tool.Manifest, fn string, arguments jsontext.Value) jsontext.Value {
	if arguments == nil {
		return nil
	}
	got := m.Coerced(fn, arguments)
	if !bytes.Equal(got, arguments) {
		e.Notes = append(e.Notes, "decided about the arguments as the tool gets them: strings became the values that they "+
			"spell")
	}
	return got
}

// builds returns the manifest of the called tool, if the bus has it, and why that is not the build of the call.
func (e *explained) builds(ctx context.Context, c *admin.Client, r *audit.Record) (
	all []*tool.Manifest, unknown string, _ error) {
	info, err := c.DescribeTool(ctx, envelope.DescribeRequest{Tool: r.ToolName, All: true})
	if toolbus.CodeOf(err) == envelope.CodeToolUnknown {
		return nil, "the tool, which the bus does not have any more", nil
	}
	if err != nil {
		return nil, "", err
	}
	m, err := tool.FromDescription(info)
	if err != nil {
		return nil, "", err
	}
	switch {
	case r.Digest == "":
		e.Notes = append(e.Notes, fmt.Sprintf("the record names no build of the tool: decided with %s %s, which the bus has "+
			"now", info.Version, info.Digest))
	case r.Digest != info.Digest:
		unknown = fmt.Sprintf("the tool as it was: the record has the build %s, and the bus has %s", r.Digest, info.Digest)
	}
	return []*tool.Manifest{m}, unknown, nil
}
