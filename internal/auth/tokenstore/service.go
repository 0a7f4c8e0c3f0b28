package tokenstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Service handles the requests about tokens. The caller has authenticated each request and passes its principal, by.
// All methods except Renew and Narrow refuse principals that are not operators. Each operation is written to the audit
// record before it is answered. Its methods are safe for concurrent use.
type Service struct {
	Store  *Store
	Record func(context.Context, audit.Record) error

	narrowed narrowings
}

// forOperators refuses a principal that is not an operator.
func forOperators(by *auth.Principal) *envelope.Error {
	if by != nil && by.Role == auth.Operator {
		return nil
	}
	return envelope.NewError(envelope.CodeForbidden, "credentials and keys are for operators").
		WithFix("ask with the token of an operator")
}

// note writes an operation on a credential to the audit record.
func (s *Service) note(
	ctx context.Context, e audit.Event, by *auth.Principal, p auth.Principal,
) *envelope.Error {
	return s.noteWith(ctx, e, by, p, audit.Credential{})
}

// noteWith is note with what c says already.
func (s *Service) noteWith(
	ctx context.Context, e audit.Event, by *auth.Principal, p auth.Principal, c audit.Credential,
) *envelope.Error {
	c.By, c.Role, c.Family, c.Chain = name(by), string(p.Role), p.Family, p.Chain
	c.Scopes, c.Roles, c.Pool, c.KeyID = p.Scopes, p.RoleIDs, p.Pool, p.KeyID
	c.Until = later(p.Expires, p.RenewUntil).UTC()
	if p.Expires.IsZero() && p.RenewUntil.IsZero() {
		c.Until = time.Time{}
	}
	err := s.Record(ctx, c.About(e, cmp.Or(p.Tenant, by.Tenant), cmp.Or(p.Actor, by.Actor), p.Run, p.Lane, s.Store.Now()))
	if err != nil {
		return replica.Unrecorded(err)
	}
	return nil
}

func name(p *auth.Principal) string { return p.Tenant + "/" + p.Actor }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func answered(token string, p auth.Principal) envelope.TokenResponse {
	a := envelope.TokenResponse{Token: token, Family: p.Family, Expires: p.Expires.UTC()}
	if !p.RenewUntil.IsZero() {
		a.RenewUntil = p.RenewUntil.UTC()
	}
	return a
}

// unmade returns the refusal for an error of Mint.
func unmade(err error) *envelope.Error {
	if errors.Is(err, auth.ErrNotReady) {
		return envelope.NewError(envelope.CodeUnavailable, err.Error()).WithRetryAfter(time.Second)
	}
	return envelope.NewError(envelope.CodeMalformed, err.Error())
}

func unreached(err error) *envelope.Error {
	return replica.Answer(err, "the control bucket")
}

// Renew returns a new token of the same family, with the same rights and lifetime. The old token may have expired.
func (s *Service) Renew(ctx context.Context, by *auth.Principal) (a envelope.TokenResponse, _ *envelope.Error) {
	p, err := by.Renewed(s.Store.Now().Truncate(time.Second))
	if err != nil {
		return a, envelope.NewError(envelope.CodeForbidden, err.Error()).WithFix("have a credential issued anew")
	}
	p.ID = auth.IDFrom(s.Store.word(ctx, "renew", by.Family))
	if p.Role == auth.Agent && len(p.Chain) > 0 && p.Origin != auth.Agent {
		return a, envelope.NewError(envelope.CodeForbidden, "the token does not prove that it was narrowed from an agent's").
			WithFix("narrow the token of an agent again")
	}
	return s.mint(ctx, audit.CredentialRenewed, by, p)
}

// Narrow returns a token with fewer rights than that of by. It has its own family, and is revoked with the family of
// by.
func (s *Service) Narrow(
	ctx context.Context, by *auth.Principal, q envelope.NarrowRequest,
) (a envelope.TokenResponse, _ *envelope.Error) {
	less := auth.Narrowing{
		ID: auth.IDFrom(s.Store.word(ctx, "narrow", by.Family, q)), Actor: q.Actor, Scopes: q.Scopes, RoleIDs: q.RoleIDs,
		Run: q.Run, Lane: q.Lane,
	}
	var refusal *envelope.Error
	if less.Life, refusal = seconds("life_s", q.LifeS, MaxRenewal); refusal != nil {
		return a, refusal
	}
	if !s.narrowed.take(by.Root(), s.Store.Now()) {
		return a, envelope.NewError(envelope.CodeQueue, "the tokens of this credential are narrowed too often").
			WithEffect(envelope.EffectNone).WithRetryAfter(time.Second)
	}
	p, err := by.Narrow(less, s.Store.Now().Truncate(time.Second))
	switch {
	case errors.Is(err, auth.ErrScopeExceeded):
		return a, envelope.NewError(envelope.CodeForbidden, err.Error()).WithFix("ask for no more than the token has")
	case err != nil:
		return a, envelope.NewError(envelope.CodeMalformed, err.Error())
	}
	return s.mint(ctx, audit.CredentialNarrowed, by, p)
}

func (s *Service) mint(
	ctx context.Context, e audit.Event, by *auth.Principal, p auth.Principal,
) (a envelope.TokenResponse, _ *envelope.Error) {
	token, err := s.Store.Mint(p)
	if err != nil {
		return a, unmade(err)
	}
	// A token that is issued after all tokens of its actor were revoked would not be revoked. So it is only issued if all
	// revocations are known.
	if err := s.Store.Prove(ctx); err != nil {
		return a, unreached(err)
	}
	if s.Store.checker.Revoked.Revoked(by) {
		return a, envelope.NewError(envelope.CodeRevoked, "")
	}
	if refusal := s.note(ctx, e, by, p); refusal != nil {
		return a, refusal
	}
	return answered(token, p), nil
}

// Issue creates a credential and returns its first token. A copy of the request gets that token, too, perhaps with
// another end.
func (s *Service) Issue(
	ctx context.Context, by *auth.Principal, q envelope.IssueRequest,
) (a envelope.TokenResponse, refusal *envelope.Error) {
	if refusal := forOperators(by); refusal != nil {
		return a, refusal
	}
	p, refusal := s.asked(q, auth.IDFrom(s.Store.word(ctx, "issue", by.Family, q)))
	if refusal != nil {
		return a, refusal
	}
	if err := s.Store.Prove(ctx); err != nil {
		return a, unreached(err)
	}
	first, copied, err := s.Store.listed(ctx, p.Family)
	if err != nil {
		return a, unreached(err)
	}
	if copied {
		p.Issued = first.Issued
	} else {
		p.Issued = s.Store.afterBar(p)
		refusal = s.note(ctx, audit.CredentialIssued, by, p)
	}
	if refusal != nil {
		return a, refusal
	}
	token, err := s.Store.Issue(ctx, p, name(by))
	if err != nil {
		return a, unreached(err)
	}
	return answered(token, p), nil
}

// asked returns the content of the token that a request asks for, or a refusal if the request is not valid. id names
// the token and its family.
func (s *Service) asked(q envelope.IssueRequest, id string) (p auth.Principal, refusal *envelope.Error) {
	life, refusal := seconds("life_s", q.LifeS, auth.MaxLife)
	if refusal != nil {
		return p, refusal
	}
	renew, refusal := seconds("renew_s", q.RenewS, MaxRenewal)
	if refusal != nil {
		return p, refusal
	}
	now := s.Store.Now().Truncate(time.Second)
	roles := slices.Compact(slices.Sorted(slices.Values(q.RoleIDs)))
	p = auth.Principal{
		Tenant: q.Tenant, Actor: q.Actor, Role: auth.Role(q.Role), Scopes: q.Scopes, RoleIDs: roles,
		Run: q.Run, Lane: q.Lane, Pool: q.Pool, ID: id, Family: auth.FamilyFrom(id, roles), Issued: now,
		Expires: now.Add(cmp.Or(life, auth.Life)),
	}
	if renew > 0 {
		p.RenewUntil = now.Add(renew)
	}
	if err := p.Check(); err != nil {
		return p, envelope.NewError(envelope.CodeMalformed, err.Error())
	}
	return p, nil
}

// seconds converts n seconds to a duration. It refuses a negative n and one above most.
func seconds(what string, n int64, most time.Duration) (time.Duration, *envelope.Error) {
	if n < 0 || n > int64(most/time.Second) {
		return 0, envelope.NewError(envelope.CodeMalformed,
			fmt.Sprintf("%s is %d: it is 0 to %d", what, n, most/time.Second))
	}
	return time.Duration(n) * time.Second, nil
}

// Revoke revokes a family of tokens, or all tokens of an actor and of its sub-actors. It stores the revocation even if
// no such credential is listed: narrowed tokens, and tokens that were issued offline, are not listed.
func (s *Service) Revoke(
	ctx context.Context, by *auth.Principal, q envelope.RevokeRequest,
) (a envelope.RevokeResponse, _ *envelope.Error) {
	if refusal := forOperators(by); refusal != nil {
		return a, refusal
	}
	ofActor := q.Tenant != "" && q.Actor != ""
	if (q.Family != "") == ofActor || !ofActor && !auth.ValidID(q.Family) {
		return a, envelope.NewError(envelope.CodeMalformed, "a family, or a tenant and an actor, are revoked")
	}
	if len(q.Reason) > envelope.MaxReason {
		return a, envelope.NewError(envelope.CodeMalformed,
			fmt.Sprintf("the reason has at most %d bytes", envelope.MaxReason))
	}
	subject, err := s.subject(ctx, q)
	if err != nil {
		return a, unreached(err)
	}
	why := audit.Credential{Reason: q.Reason}
	if refusal := s.noteWith(ctx, audit.CredentialRevoked, by, subject, why); refusal != nil {
		return a, refusal
	}
	if ofActor {
		a, err = s.Store.Bar(ctx, q.Tenant, q.Actor, name(by))
	} else {
		a, err = s.Store.end(ctx, q.Family, name(by))
	}
	if err == nil && a.Families == 0 {
		a.Nearest, err = s.Store.nearest(ctx, q)
	}
	if err != nil {
		return a, unreached(err)
	}
	return a, nil
}

// subject returns what the record says about the subject of a revocation: of a listed family also its owner.
func (s *Service) subject(ctx context.Context, q envelope.RevokeRequest) (p auth.Principal, err error) {
	p = auth.Principal{Tenant: q.Tenant, Actor: q.Actor, Family: q.Family}
	if q.Family == "" {
		return p, nil
	}
	c, _, err := s.Store.listed(ctx, q.Family)
	p.Tenant, p.Actor, p.Role = c.Tenant, c.Actor, auth.Role(c.Role)
	return p, err
}

// maxListed is the largest number of credentials in an answer. Each is less than 12 KiB, most far less.
const maxListed = 64

// List returns the issued credentials that have not expired, the newest first, at most maxListed in one answer.
func (s *Service) List(
	ctx context.Context, by *auth.Principal, q envelope.CredentialsRequest,
) (a envelope.CredentialsResponse, _ *envelope.Error) {
	if refusal := forOperators(by); refusal != nil {
		return a, refusal
	}
	if refusal := s.note(ctx, audit.CredentialsListed, by, auth.Principal{}); refusal != nil {
		return a, refusal
	}
	all, err := s.Store.Issued(ctx)
	if err != nil {
		return a, unreached(err)
	}
	for i, c := range all {
		if c.Family == q.After {
			all = all[i+1:]
			break
		}
	}
	for _, c := range all {
		switch {
		case q.Tenant != "" && c.Tenant != q.Tenant, q.Actor != "" && c.Actor != q.Actor, !s.Store.Now().Before(c.Until):
		case len(a.Credentials) == maxListed:
			a.More = true
			return a, nil
		default:
			a.Credentials = append(a.Credentials, c)
		}
	}
	return a, nil
}

var errUnrecorded = errors.New("the record does not take the change")

// Rotate creates a new signing key, see [Store.Rotate]. With q.Distrust the answer has a new token for the operator.
func (s *Service) Rotate(
	ctx context.Context, by *auth.Principal, q envelope.RotateRequest,
) (a envelope.RotateResponse, _ *envelope.Error) {
	if refusal := forOperators(by); refusal != nil {
		return a, refusal
	}
	var noted string
	var refusal *envelope.Error
	r, err := s.Store.rotateAfter(ctx, q.Distrust, func(keyID string) error {
		if keyID == noted {
			return nil
		}
		noted = keyID
		how := audit.Credential{Distrust: q.Distrust}
		if refusal = s.noteWith(ctx, audit.KeyRotated, by, auth.Principal{KeyID: keyID}, how); refusal != nil {
			return errUnrecorded
		}
		return nil
	})
	switch {
	case refusal != nil:
		return a, refusal
	case err != nil:
		return a, unreached(err)
	}
	if q.Distrust {
		r.Token, err = s.afresh(ctx, r.KeyID, by)
	}
	if err != nil {
		return a, unreached(err)
	}
	return r, nil
}

// afresh returns the operator's token signed with the new key. After a rotation with distrust all other tokens are
// invalid, and somebody must be able to issue credentials.
func (s *Service) afresh(ctx context.Context, kid string, by *auth.Principal) (token string, err error) {
	err = timer.Backoff{Pause: 10 * time.Millisecond}.Until(ctx, func(context.Context) (bool, error) {
		known, _, ok := s.Store.current()
		return ok && known == kid, nil // this store, too, receives the key from the bucket
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return "", err
	}
	if err := s.Store.relist(ctx, by.Family); err != nil { // the token is worth more than its entry
		s.Store.Logger.Warn("a credential is listed as distrusted, and is not", "family", by.Family, "err", err)
	}
	return s.Store.Mint(*by)
}
