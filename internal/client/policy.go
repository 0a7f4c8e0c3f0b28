package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// pushTries is how often PushPolicy stores the documents: another push removes those that no version names.
const pushTries = 3

// PushPolicy puts a policy set in force if the version in force has the revision expected, 0 for none, and returns the
// new revision. It is for operators, as are the functions below.
func (c *Client) PushPolicy(
	ctx context.Context, d policy.Documents, expected uint64, reason string,
) (revision uint64, err error) {
	for range pushTries {
		for _, document := range d.All() {
			if err := c.putPolicy(ctx, document); err != nil {
				return 0, err
			}
		}
		revision, err = c.applyPolicy(ctx, d.Versions(), expected, reason)
		if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Reason.Code != envelope.CodeNotFound {
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
		if _, err := answer[struct{}](ctx, c, subjects.OpPolicyPart, q); err != nil {
			return err
		}
		n++
	}
	return nil
}

func (c *Client) applyPolicy(
	ctx context.Context, v envelope.PolicyVersions, expected uint64, reason string,
) (uint64, error) {
	a, err := answer[envelope.PolicyPushResponse](ctx, c, subjects.OpPolicyPush,
		envelope.PolicyPushRequest{Versions: v, Expected: expected, Reason: reason})
	return a.Revision, err
}

// PolicyHistory returns the versions of the policy, at most 64, the one in force first.
func (c *Client) PolicyHistory(ctx context.Context) ([]envelope.PolicyVersion, error) {
	a, err := answer[envelope.PolicyHistoryResponse](ctx, c, subjects.OpPolicyHistory, struct{}{})
	return a.Versions, err
}

// RollbackPolicy puts the set of an earlier revision in force again, as a new version, and returns its revision.
func (c *Client) RollbackPolicy(ctx context.Context, revision uint64, reason string) (uint64, error) {
	all, err := c.PolicyHistory(ctx)
	if err != nil {
		return 0, err
	}
	for _, v := range all {
		if v.Revision == revision {
			return c.applyPolicy(ctx, v.Versions, all[0].Revision, reason)
		}
	}
	return 0, NoRevision(revision)
}

// NoRevision returns the error for a revision that the history of the policy does not have.
func NoRevision(revision uint64) error {
	return &Refusal{envelope.NewError(envelope.CodeNotFound,
		fmt.Sprintf("the history of the policy has no revision %d", revision)).
		WithFix("`toolbus policy history` lists the revisions")}
}

// Policy returns the documents of a version.
func (c *Client) Policy(ctx context.Context, v envelope.PolicyVersions) (d policy.Documents, err error) {
	if d.Roles, err = c.policyDocument(ctx, v.Roles); err != nil {
		return d, err
	}
	if d.Lanes, err = c.policyDocument(ctx, v.Lanes); err != nil {
		return d, err
	}
	d.ToolRegistry, err = c.policyDocument(ctx, v.ToolRegistry)
	return d, err
}

// policyDocument reads a document in parts, and checks its digest.
func (c *Client) policyDocument(ctx context.Context, digest string) (data []byte, err error) {
	for n := 0; policy.Digest(data) != digest; n++ {
		a, err := answer[envelope.PolicyReadResponse](ctx, c, subjects.OpPolicyRead,
			envelope.PolicyReadRequest{SHA256: digest, Part: n})
		if err != nil {
			return nil, err
		}
		data = append(data, a.Body...)
	}
	return data, nil
}
