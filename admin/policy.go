package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// PolicyVersion is one version of the policy of a bus: its revision, who put it in force when and why, and the digests
// of its documents.
type PolicyVersion = envelope.PolicyVersion

// Policy is a policy set: the text of its three documents, see docs/policy.md.
type Policy struct {
	Roles, Lanes, ToolRegistry []byte // roles.yaml, lanes.yaml and tool_registry.yaml
}

// pushTries is how often PushPolicy stores the documents: another push removes those that no version names.
const pushTries = 3

// PushPolicy puts a policy set in force and returns its revision. All dispatchers decide by it within 1 s. An invalid
// set is refused as a whole, with all its problems. So is a set if the revision in force is not expected; expected is
// 0 for the first policy of a bus. reason is recorded, in at most 1,000 bytes.
func (c *Client) PushPolicy(
	ctx context.Context, p Policy, expected uint64, reason string,
) (revision uint64, err error) {
	d := policy.Documents(p)
	for range pushTries {
		for _, document := range d.All() {
			if err := c.putPolicy(ctx, document); err != nil {
				return 0, err
			}
		}
		if revision, err = c.applyPolicy(ctx, d.Versions(), expected, reason); toolbus.CodeOf(err) != envelope.CodeNotFound {
			break
		}
	}
	return revision, err
}

// putPolicy stores a document in parts.
func (c *Client) putPolicy(ctx context.Context, document []byte) error {
	digest, n := policy.Digest(document), 0
	for part := range slices.Chunk(document, envelope.PolicyPartBytes) {
		q := envelope.PolicyPartRequest{SHA256: digest, Part: n, Body: part}
		if _, err := ask(ctx, c, operation.PolicyPart, q); err != nil {
			return err
		}
		n++
	}
	return nil
}

// pushTime is how long to wait for a push if ctx has no deadline. A dispatcher compiles the set for all tools, which
// takes seconds for 5,000 of them.
const pushTime = time.Minute

func (c *Client) applyPolicy(
	ctx context.Context, v envelope.PolicyVersions, expected uint64, reason string,
) (uint64, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, pushTime)
		defer cancel()
	}
	q := envelope.PolicyPushRequest{Versions: v, Expected: expected, Reason: reason}
	a, err := ask(ctx, c, operation.PolicyPush, q)
	return a.Revision, unsettled(err, "`toolbus policy history` lists the versions")
}

// PolicyHistory returns the versions of the policy, at most 64, the one in force first.
func (c *Client) PolicyHistory(ctx context.Context) ([]PolicyVersion, error) {
	a, err := ask(ctx, c, operation.PolicyHistory, struct{}{})
	return a.Versions, err
}

// RollbackPolicy puts the set of an earlier revision in force again, as a new version, and returns its revision. The
// recorded reason begins with "rollback to revision N".
func (c *Client) RollbackPolicy(ctx context.Context, revision uint64, reason string) (uint64, error) {
	v, newest, err := c.policyAt(ctx, revision)
	if err != nil {
		return 0, err
	}
	because := fmt.Sprintf("rollback to revision %d", revision)
	if reason != "" {
		because += ": " + reason
	}
	return c.applyPolicy(ctx, v.Versions, newest, because)
}

// PolicyRevision returns the version with that revision, if the history has it.
func (c *Client) PolicyRevision(ctx context.Context, revision uint64) (PolicyVersion, error) {
	v, _, err := c.policyAt(ctx, revision)
	return v, err
}

// policyAt returns the version with a revision, and the revision in force.
func (c *Client) policyAt(ctx context.Context, revision uint64) (v PolicyVersion, newest uint64, _ error) {
	all, err := c.PolicyHistory(ctx)
	if err != nil {
		return v, 0, err
	}
	for _, v := range all {
		if v.Revision == revision {
			return v, all[0].Revision, nil
		}
	}
	return v, 0, toolbus.NewError(envelope.NewError(envelope.CodeNotFound,
		fmt.Sprintf("the history of the policy has no revision %d", revision)).
		WithFix("`toolbus policy history` lists the revisions"), nil)
}

// Policy returns the documents of a version. It reads only the digests of v.
func (c *Client) Policy(ctx context.Context, v PolicyVersion) (p Policy, err error) {
	if p.Roles, err = c.policyDocument(ctx, v.Versions.Roles); err != nil {
		return p, err
	}
	if p.Lanes, err = c.policyDocument(ctx, v.Versions.Lanes); err != nil {
		return p, err
	}
	p.ToolRegistry, err = c.policyDocument(ctx, v.Versions.ToolRegistry)
	return p, err
}

// policyDocument reads a document in parts, and checks its digest.
func (c *Client) policyDocument(ctx context.Context, digest string) (data []byte, err error) {
	for n := 0; policy.Digest(data) != digest; n++ {
		a, err := ask(ctx, c, operation.PolicyRead, envelope.PolicyReadRequest{SHA256: digest, Part: n})
		if err != nil {
			return nil, err
		}
		data = append(data, a.Body...)
	}
	return data, nil
}
