package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	policystore "github.com/seed-018f16cc/toolbus/internal/policy/store"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// sayTime bounds the questions of sayPolicy.
const sayTime = 5 * time.Second

// sayPolicy prints which policy is in force, and which tools it hides from the user's agent.
func (d *development) sayPolicy(ctx context.Context, url string) {
	ctx, cancel := context.WithTimeout(ctx, sayTime)
	defer cancel()
	history, all, err := d.asOperator(ctx, url)
	if err != nil {
		fmt.Fprintln(d.env.stderr, "warning: which policy is in force is not known:", err)
		return
	}
	offered, err := d.asAgent(ctx, url)
	if err != nil {
		fmt.Fprintln(d.env.stderr, "warning: the policy in force lets nothing be called:", err)
	}
	fmt.Fprint(d.env.stdout, policySentence(history, all, without(all, offered)))
}

// policySentence says which version of the policy is in force, the newest of the history, and which of all tools it
// hides.
func policySentence(history []envelope.PolicyVersion, all, hidden []string) string {
	if len(history) == 0 || policystore.AllowsAll(history) {
		return "policy: all tools are allowed\n"
	}
	v := history[0]
	says := fmt.Sprintf("policy: revision %d of %s is in force", v.Revision, cli.EscapeCell(v.By))
	if v.Reason != "" {
		says += fmt.Sprintf(" (%s)", cli.EscapeCell(v.Reason))
	}
	if len(hidden) > 0 {
		says += fmt.Sprintf("; it hides %d of %d tools from %s: %s", len(hidden), len(all), toolbus.DefaultActor,
			strings.Join(hidden[:min(len(hidden), maxHidden)], ", "))
	}
	if len(hidden) > maxHidden {
		says += ", …"
	}
	return says + "\n        `toolbus policy reset` allows all tools again\n"
}

// maxHidden is the largest number of hidden tools that are named.
const maxHidden = 10

// without returns the names of all that are not in some.
func without(all, some []string) (rest []string) {
	for _, name := range all {
		if !slices.Contains(some, name) {
			rest = append(rest, name)
		}
	}
	return rest
}

// asOperator returns the versions of the policy, and the ids of all tools that may be called.
func (d *development) asOperator(ctx context.Context, url string) (
	history []envelope.PolicyVersion, ids []string, err error) {
	c, err := admin.Connect(ctx, url, admin.Options{Name: connectionName, CredentialsFile: d.credential(auth.Operator)})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = c.Close() }() // nothing is in flight
	if history, err = c.PolicyHistory(ctx); err != nil {
		return nil, nil, err
	}
	listed, err := c.DescribeTools(ctx, envelope.DescribeRequest{All: true})
	d.loaded.builds = map[string]build{}
	for _, t := range listed.Tools {
		d.loaded.builds[t.ToolID] = build{t.Digest, t.Version}
	}
	return history, idsOf(slices.DeleteFunc(listed.Tools, uncallable)), err
}

// asAgent returns the ids of the tools that the user's agent is offered.
func (d *development) asAgent(ctx context.Context, url string) ([]string, error) {
	conn, err := toolbus.Connect(ctx, url,
		toolbus.Options{Name: connectionName, CredentialsFile: d.credential(auth.Agent)})
	if err != nil {
		return nil, err
	}
	c, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer closeBoth(conn, c)
	listed, err := c.Tools(ctx)
	return idsOf(listed), err
}

// credential returns the file with the user's token in a role, or "" on a bus without tokens.
func (d *development) credential(r auth.Role) string {
	if d.bus == nil {
		return ""
	}
	return d.bus.Credential(r)
}

// uncallable reports whether a tool is offered to nobody, whatever the policy.
func uncallable(t envelope.ToolInfo) bool {
	return t.Status == string(tool.StatusPlanned) || t.Status == string(tool.StatusDisabled)
}

func idsOf(tools []envelope.ToolInfo) (ids []string) {
	for _, t := range tools {
		ids = append(ids, t.ToolID)
	}
	return ids
}
