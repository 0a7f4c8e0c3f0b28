package envelope

import "time"

// NarrowRequest asks for a token with less rights than the one that the question carries. What is left empty stays as
// it is, but for the scopes: none is none.
type NarrowRequest struct {
	Actor  string   `json:"actor,omitzero"` // a part of the actor: its name, a slash, and more
	Scopes []string `json:"scopes,omitzero"`
	Run    string   `json:"run,omitzero"`
	Lane   string   `json:"lane,omitzero"`
	LifeS  int64    `json:"life_s,omitzero"` // default: as long as the one that it is made from
}

// IssueRequest asks for the first token of a credential.
type IssueRequest struct {
	Tenant string   `json:"tenant"`
	Actor  string   `json:"actor"`
	Role   string   `json:"role"`
	Scopes []string `json:"scopes,omitzero"`
	Run    string   `json:"run,omitzero"`
	Lane   string   `json:"lane,omitzero"`
	Pool   string   `json:"pool,omitzero"`
	LifeS  int64    `json:"life_s,omitzero"`  // life of each token in seconds; 0 is 15 minutes, at most 24 hours
	RenewS int64    `json:"renew_s,omitzero"` // for how long it may be renewed; default never
}

// TokenResponse is a token, and what may be said of it.
type TokenResponse struct {
	Token      string    `json:"token"`
	Family     string    `json:"family"`
	Expires    time.Time `json:"expires"`
	RenewUntil time.Time `json:"renew_until,omitzero"`
}

// RevokeRequest ends a family of tokens, or all tokens of an actor of a tenant and of its sub-actors (ACTOR/...).
// Tokens that were narrowed from a revoked one end, too.
type RevokeRequest struct {
	Family string `json:"family,omitzero"`
	Tenant string `json:"tenant,omitzero"`
	Actor  string `json:"actor,omitzero"`
}

// RevokeResponse counts the listed families that the revocation covers. 0 means that no listed family has this name:
// the dispatcher has stored the revocation all the same, since tokens that were minted offline or narrowed are not
// listed.
type RevokeResponse struct {
	Families int `json:"families"`
	// Nearest are names of listed credentials like the one of the question, best first, at most 3: families, or actors.
	// An actor of another tenant is written "ACTOR in tenant TENANT". It is empty if Families is not 0.
	Nearest []string `json:"nearest,omitzero"`
}

// CredentialsRequest asks which credentials were issued and have not ended, of one tenant and actor or with "" of
// all, behind the family After if there is one.
type CredentialsRequest struct {
	Tenant string `json:"tenant,omitzero"`
	Actor  string `json:"actor,omitzero"`
	After  string `json:"after,omitzero"`
}

// CredentialsResponse is the answer. More says that there are others behind the last one; a message has no room for
// all.
type CredentialsResponse struct {
	Credentials []CredentialInfo `json:"credentials"`
	More        bool             `json:"more,omitzero"`
}

// CredentialInfo is what is remembered of a family of tokens. The token itself is not.
type CredentialInfo struct {
	Tenant  string    `json:"tenant"`
	Actor   string    `json:"actor"`
	Role    string    `json:"role"`
	Scopes  []string  `json:"scopes,omitzero"`
	Pool    string    `json:"pool,omitzero"`
	Run     string    `json:"run,omitzero"`
	Lane    string    `json:"lane,omitzero"`
	Family  string    `json:"family"`
	Issued  time.Time `json:"issued"`
	Until   time.Time `json:"until"` // it may be used, and renewed
	By      string    `json:"by"`
	Revoked bool      `json:"revoked,omitzero"`
}

// RotateRequest asks for a new key, and with Distrust that nothing is believed any more of what the former ones have
// signed.
type RotateRequest struct {
	Distrust bool `json:"distrust,omitzero"`
}

// RotateResponse says how a new key takes the place of the former ones.
type RotateResponse struct {
	KeyID string    `json:"key_id"`
	Since time.Time `json:"since"`          // tokens are signed with it from then on
	Until time.Time `json:"until"`          // what the former keys have signed counts as expired then
	Token string    `json:"token,omitzero"` // of whoever asked, where nothing of the former keys is believed any more
}
