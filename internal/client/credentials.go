package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/operation"
)

// Narrow asks for a token with less rights than the client's own, for a part of what it does: a sub-agent, a run. It
// ends with the client's token at the latest, and is revoked with it.
func (c *Client) Narrow(ctx context.Context, q envelope.NarrowRequest) (envelope.TokenResponse, error) {
	a, err := Ask(ctx, c, operation.TokenNarrow, q)
	if err == nil {
		err = CheckRoles(a, q.RoleIDs)
	}
	return a, err
}

// CheckRoles returns an error if the token of a lacks one of roles. A dispatcher that does not know roles ignores them.
func CheckRoles(a envelope.TokenResponse, roles []string) error {
	got, _ := auth.Inspect(a.Token) // a token that cannot be decoded carries none
	for _, r := range roles {
		if !slices.Contains(got.RoleIDs, r) {
			return fmt.Errorf("the token of family %s does not carry the role %.100q: a dispatcher of an earlier build "+
				"made it. Replace all dispatchers, revoke the family, and ask again", a.Family, r)
		}
	}
	return nil
}
