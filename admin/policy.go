package admin

import (
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// PolicyVersion is one version of the policy of a bus: its revision, who put it in force when and why, and the digests
// of its documents.
type PolicyVersion = envelope.PolicyVersion

// Policy is a policy set: the text of its three documents, see docs/policy.md.
type Policy struct {
	Roles, Lanes, ToolRegistry []byte // roles.yaml, lanes.yaml and tool_registry.yaml
}

// PushPolicy puts a policy set in force and returns its revision. All dispatchers decide by it within 1 s. An invalid
// set is refused as a whole, with all its problems. So is a set if the revision in force is not expected; expected is
// 0 for the first policy of a bus. reason is recorded, in at most 1,000 bytes.
func (c *Client) PushPolicy(
	ctx context.Context, p Policy, expected uint64, reason string,
) (revision uint64, err error) {
	revision, err = c.own.PushPolicy(ctx, policy.Documents(p), expected, reason)
	return revision, refused(err)
}

// PolicyHistory returns the versions of the policy, at most 64, the one in force first.
func (c *Client) PolicyHistory(ctx context.Context) ([]PolicyVersion, error) {
	all, err := c.own.PolicyHistory(ctx)
	return all, refused(err)
}

// RollbackPolicy puts the set of an earlier revision in force again, as a new version, and returns its revision.
func (c *Client) RollbackPolicy(ctx context.Context, revision uint64, reason string) (uint64, error) {
	now, err := c.own.RollbackPolicy(ctx, revision, reason)
	return now, refused(err)
}

// Policy returns the documents of a version.
func (c *Client) Policy(ctx context.Context, v PolicyVersion) (Policy, error) {
	d, err := c.own.Policy(ctx, v.Versions)
	return Policy(d), refused(err)
}
