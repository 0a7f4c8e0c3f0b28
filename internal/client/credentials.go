package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Issue asks for the first token of a credential. It is for operators, as are the functions below but Narrow.
func (c *Client) Issue(ctx context.Context, q envelope.IssueRequest) (envelope.TokenResponse, error) {
	a, err := answer[envelope.TokenResponse](ctx, c, subjects.OpTokenIssue, q)
	if err == nil {
		err = carries(a, q.RoleIDs)
	}
	return a, err
}

// carries returns an error if the token of a lacks one of roles. A dispatcher that does not know roles ignores them.
func carries(a envelope.TokenResponse, roles []string) error {
	got, _ := auth.Inspect(a.Token) // a token that cannot be decoded carries none
	for _, r := range roles {
		if !slices.Contains(got.RoleIDs, r) {
			return fmt.Errorf("the token of family %s does not carry the role %.100q: a dispatcher of an earlier build "+
				"made it. Replace all dispatchers, revoke the family, and ask again", a.Family, r)
		}
	}
	return nil
}

// Narrow asks for a token with less rights than the client's own, for a part of what it does: a sub-agent, a run. It
// ends with the client's token at the latest, and is revoked with it.
func (c *Client) Narrow(ctx context.Context, q envelope.NarrowRequest) (envelope.TokenResponse, error) {
	a, err := answer[envelope.TokenResponse](ctx, c, subjects.OpTokenNarrow, q)
	if err == nil {
		err = carries(a, q.RoleIDs)
	}
	return a, err
}

// Revoke ends credentials: within a second nothing that is done with them is admitted.
func (c *Client) Revoke(ctx context.Context, q envelope.RevokeRequest) (envelope.RevokeResponse, error) {
	return answer[envelope.RevokeResponse](ctx, c, subjects.OpTokenRevoke, q)
}

// Credentials lists those that were issued and have not ended, of a tenant and an actor, or with "" of all.
func (c *Client) Credentials(ctx context.Context, q envelope.CredentialsRequest) (all []envelope.CredentialInfo,
	err error) {
	for {
		page, err := answer[envelope.CredentialsResponse](ctx, c, subjects.OpTokenList, q)
		if err != nil {
			return nil, err
		}
		if all = append(all, page.Credentials...); !page.More || len(page.Credentials) == 0 {
			return all, nil
		}
		q.After = all[len(all)-1].Family
	}
}

// RotateKeys makes a new key that tokens are signed with.
func (c *Client) RotateKeys(ctx context.Context, q envelope.RotateRequest) (envelope.RotateResponse, error) {
	return answer[envelope.RotateResponse](ctx, c, subjects.OpKeyRotate, q)
}
