package runstore

import (
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// starter holds the part of a token that the record of a run keeps: an agent has started the run with that token.
type starter struct {
	Family string    `json:"family"`
	Chain  []string  `json:"chain,omitzero"`
	Issued time.Time `json:"issued"`
}

// starter returns that of a run of the sender, and when the run ends at the latest: with the family of the token. Both
// are zero for those who are no agents.
func (s Sender) starter() (*starter, time.Time) {
	if s.operates() {
		return nil, time.Time{}
	}
	end := s.Token.Expires
	if s.Token.RenewUntil.After(end) {
		end = s.Token.RenewUntil
	}
	return &starter{s.Token.Family, s.Token.Chain, s.Token.Issued.UTC()}, end.UTC()
}

// token returns the content of the token as far as the record has it.
func (r *record) token() auth.Principal {
	return auth.Principal{
		Tenant: r.Tenant, Actor: strings.TrimPrefix(r.By, r.Tenant+"/"),
		Family: r.Starter.Family, Chain: r.Starter.Chain, Issued: r.Starter.Issued,
	}
}

// ended reports whether the run of an agent has ended by itself: the family of its token has expired or was revoked.
func (s *Store) ended(r *record) bool {
	if r.Starter == nil || r.State == string(policy.RunClosed) {
		return false
	}
	if !r.Expires.IsZero() && !s.Now().Before(r.Expires) {
		return true
	}
	if s.Revoked == nil {
		return false
	}
	p := r.token()
	return s.Revoked.Revoked(&p)
}

// now returns the record as it is now: that of a run that has ended by itself is closed.
func (s *Store) now(r *record) *record {
	if r == nil || !s.ended(r) {
		return r
	}
	over := *r
	over.State = string(policy.RunClosed)
	return &over
}

// facts returns what a decision needs of a version of a run, as it is now; nil if the run is missing.
func (s *Store) facts(v version) *policy.Run {
	if v.Value == nil || !s.ended(v.Value) {
		return v.facts
	}
	over := *v.facts
	over.State = policy.RunClosed
	return &over
}
