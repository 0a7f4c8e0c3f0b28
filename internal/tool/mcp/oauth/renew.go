package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/oauth2"
)

// refresh exchanges the refresh token for new tokens.
func (g Grant) refresh(ctx context.Context, client *http.Client, old Tokens) (Tokens, error) {
	c := oauth2.Config{
		ClientID: g.ClientID, ClientSecret: g.ClientSecret,
		Endpoint: oauth2.Endpoint{TokenURL: g.TokenURL, AuthStyle: g.AuthStyle},
	}
	issued := time.Now()
	// Config.TokenSource would not send the resource (RFC 8707). Servers ignore the empty code (RFC 6749 section 3.2).
	t, err := c.Exchange(context.WithValue(ctx, oauth2.HTTPClient, client), "",
		oauth2.SetAuthURLParam("grant_type", "refresh_token"), oauth2.SetAuthURLParam("refresh_token", old.Refresh),
		oauth2.SetAuthURLParam("resource", g.Resource))
	if err != nil {
		return old, discreet(err)
	}
	next := tokensOf(t, issued)
	next.Refresh = cmp.Or(next.Refresh, old.Refresh) // a server that does not rotate may send none
	return next, nil
}

// discreet returns an error of the token endpoint without the body of the answer, which may contain tokens.
func discreet(err error) error {
	said, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return err
	}
	status := 0
	if said.Response != nil {
		status = said.Response.StatusCode
	}
	return &answerError{status, said.ErrorCode}
}

// answerError is an error that the token endpoint answered with.
type answerError struct {
	status int
	code   string
}

func (e *answerError) Error() string {
	return fmt.Sprintf("the authorization server answered with HTTP status %d, error %.80q", e.status, e.code)
}

// final returns why the authorization server will not renew any more, or "" if it may.
func final(err error) string {
	said, ok := errors.AsType[*answerError](err)
	if ok && slices.Contains([]string{"invalid_grant", "invalid_client", "unauthorized_client"}, said.code) {
		return said.code
	}
	return ""
}
