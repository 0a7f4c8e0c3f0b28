package envelope

import "time"

// NarrowRequest asks for a token with fewer rights than the token of the request. An empty field leaves the right as it
// is, except that an empty Scopes means no scopes.
type NarrowRequest struct {
	Actor  string   `json:"actor,omitzero"` // sub-actor: the name of the actor, a slash, and more
	Scopes []string `json:"scopes,omitzero"`
	// RoleIDs are some of the roles that the token of the request carries. Builds before this member ignore it.
	RoleIDs []string `json:"role_ids,omitzero"`
	Run     string   `json:"run,omitzero"`
	Lane    string   `json:"lane,omitzero"`
	LifeS   int64    `json:"life_s,omitzero"` // lifetime in seconds; default: that of the token of the request
}

// IssueRequest asks for the first token of a new credential. Tenant, Actor and Role are required.
type IssueRequest struct {
	Tenant string   `json:"tenant"`
	Actor  string   `json:"actor"`
	Role   string   `json:"role"`
	Scopes []string `json:"scopes,omitzero"`
	// RoleIDs are the roles that calls with the token may have; default: the deployment's default role. Builds before
	// this member ignore it.
	RoleIDs []string `json:"role_ids,omitzero"`
	Run     string   `json:"run,omitzero"`
	Lane    string   `json:"lane,omitzero"`
	Pool    string   `json:"pool,omitzero"`
	LifeS   int64    `json:"life_s,omitzero"`  // lifetime of each token in seconds, at most 24 h; default 15 min
	RenewS  int64    `json:"renew_s,omitzero"` // time in seconds for which the token may be renewed; default: not at all
}

// TokenResponse holds a token, its expiry, and the family by which it can be revoked. RenewUntil is zero if the token
// cannot be renewed.
type TokenResponse struct {
	Token      string    `json:"token"`
	Family     string    `json:"family"`
	Expires    time.Time `json:"expires"`
	RenewUntil time.Time `json:"renew_until,omitzero"`
}

// RevokeRequest revokes a family of tokens, or all tokens of an actor of a tenant and of its sub-actors (ACTOR/...).
// Tokens that were narrowed from a revoked token are revoked, too.
type RevokeRequest struct {
	Family string `json:"family,omitzero"`
	Tenant string `json:"tenant,omitzero"`
	Actor  string `json:"actor,omitzero"`
	Reason string `json:"reason,omitzero"` // at most [MaxReason] bytes, for the audit record
}

// RevokeResponse holds the number of listed families that the revocation covers. Even if it is 0, the dispatcher has
// stored the revocation, because narrowed tokens and tokens that were signed offline are not listed.
type RevokeResponse struct {
	Families int `json:"families"`
	Already  int `json:"already,omitzero"` // those of Families that were revoked before
	// Nearest lists up to 3 families or actors with names similar to the requested one, best first. An actor of another
	// tenant is written "ACTOR in tenant TENANT". It is empty if Families is not 0.
	Nearest []string `json:"nearest,omitzero"`
}

// CredentialsRequest asks for the issued credentials that have not expired, from the first family after After on. An
// empty Tenant or Actor selects all.
type CredentialsRequest struct {
	Tenant string `json:"tenant,omitzero"`
	Actor  string `json:"actor,omitzero"`
	After  string `json:"after,omitzero"`
}

// CredentialsResponse is the answer to a CredentialsRequest. More means that the list goes on after the last one,
// because one message has no room for all.
type CredentialsResponse struct {
	Credentials []CredentialInfo `json:"credentials"`
	More        bool             `json:"more,omitzero"`
}

// CredentialInfo describes an issued family of tokens. It does not hold a token.
type CredentialInfo struct {
	Tenant  string    `json:"tenant"`
	Actor   string    `json:"actor"`
	Role    string    `json:"role"`
	Scopes  []string  `json:"scopes,omitzero"`
	RoleIDs []string  `json:"role_ids,omitzero"`
	Pool    string    `json:"pool,omitzero"`
	Run     string    `json:"run,omitzero"`
	Lane    string    `json:"lane,omitzero"`
	Family  string    `json:"family"`
	Issued  time.Time `json:"issued"`
	Until   time.Time `json:"until"` // time until which it can be used or renewed
	By      string    `json:"by"`
	Revoked bool      `json:"revoked,omitzero"`
	// Distrusted means that the key that signed its tokens is not trusted any more.
	Distrusted bool `json:"distrusted,omitzero"`
}

// RotateRequest asks for a new signing key. With Distrust, dispatchers accept no token of an earlier key from now on.
type RotateRequest struct {
	Distrust bool `json:"distrust,omitzero"`
}

// RotateResponse describes the new signing key.
type RotateResponse struct {
	KeyID string    `json:"key_id"`
	Since time.Time `json:"since"`          // dispatchers sign tokens with the key from this time on
	Until time.Time `json:"until"`          // tokens of earlier keys count as expired from this time on
	Token string    `json:"token,omitzero"` // with Distrust: a new token for the operator that asked
}
