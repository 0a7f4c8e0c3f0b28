package auth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Role is what part of the bus somebody plays.
type Role string

// The roles. Dispatchers have keys and need no token.
const (
	Agent    Role = "agent"    // calls tools, as one actor
	Gateway  Role = "door"     // brings the requests of many actors of its tenant, each with its own token
	Auditor  Role = "auditor"  // reads the record of its tenant; with the scope [ScopeAudit], of all
	Executor Role = "executor" // runs the calls of one pool
	Operator Role = "operator" // looks after the deployment, and mints tokens
)

// Roles are all of them.
func Roles() []Role { return []Role{Agent, Gateway, Auditor, Executor, Operator} }

// Scopes with a meaning of their own.
const (
	ScopeAll   = "*"         // every scope there is
	ScopeAudit = "audit:all" // of an auditor: the record of all tenants
)

// Principal is what a token says of its holder. The zero value is nobody.
type Principal struct {
	Tenant, Actor string
	Role          Role
	Scopes        []string // what its calls may claim; sorted
	Run, Lane     string   // the only ones that its calls may be of; "" is any
	Pool          string   // of an executor, and of nobody else

	ID     string   // of this token
	Family string   // stays the same when a token is renewed; it is what is revoked
	Chain  []string // the families of the tokens that this one was narrowed from, the oldest first
	// Origin is the role of the first token of Chain, "" if Chain is empty. Builds before 0.2 narrowed tokens of other
	// roles into agents, and leave it empty in all tokens that they narrow or renew.
	Origin Role

	Issued, Expires time.Time // whole seconds
	RenewUntil      time.Time // until then the token may be exchanged for a new one, also when it has expired; zero: never
	KeyID           string    // of the key that has signed it
}

// Bounds of tokens. One has to fit into the first line that a client sends to the server, and into each request.
const (
	MaxToken  = 2048 // bytes
	MaxScopes = 32
	maxText   = 256 // of a scope, a run, a lane or a pool
	maxChain  = 8
)

// Life is the default life of a token, and MaxLife the longest: clients that renew their tokens need no longer one than
// Life, clients behind a door cannot renew theirs. Revocations are remembered longer than MaxLife.
const (
	Life    = 15 * time.Minute
	MaxLife = 24 * time.Hour
)

// idLength is how long a name of [NewID] is.
const idLength = 20

// NewID returns a name that nobody can guess, for a token or a family.
func NewID() string { return strings.ToLower(rand.Text()[:idLength]) }

// IsSub reports whether an actor is a sub-actor of another: its name is that one's, a slash, and more. The slashes of
// "agent://" start no sub-actor.
func IsSub(actor, of string) bool {
	return len(actor) > len(of) && actor[len(of)] == '/' && actor[:len(of)] == of && strings.TrimRight(of, ":/") == of
}

// Check returns what keeps p from being anybody.
func (p Principal) Check() error {
	texts := append([]string{p.Run, p.Lane, p.Pool, p.ID, p.Family}, p.Chain...)
	switch {
	case !slices.Contains(Roles(), p.Role):
		return fmt.Errorf("there is no role %.40q; the roles are %v", p.Role, Roles())
	case p.Tenant == "" || p.Actor == "" || !subjects.Legible(p.Tenant) || !subjects.Legible(p.Actor):
		return errors.New("a token is for a tenant and an actor, whose names are at most 100 bytes as tokens of a subject")
	case (p.Role == Executor) != (p.Pool != ""):
		return errors.New("executors have a pool, and nobody else has")
	case len(p.Scopes) > MaxScopes:
		return fmt.Errorf("%d scopes are too many: at most %d", len(p.Scopes), MaxScopes)
	case len(p.Chain) > maxChain:
		return fmt.Errorf("a token may be narrowed %d times", maxChain)
	case p.ID == "" || p.Family == "":
		return errors.New("a token has an id and a family")
	case slices.ContainsFunc(texts, func(s string) bool { return len(s) > maxText }):
		return fmt.Errorf("names in a token are at most %d bytes", maxText)
	case slices.ContainsFunc(append(p.Chain, p.ID, p.Family), func(s string) bool { return !plain(s) }):
		return errors.New("an id is of small letters and digits")
	}
	for _, s := range p.Scopes {
		if !validScope(s) {
			return fmt.Errorf("%.40q is no scope: one is 1 to %d visible ASCII characters without quote and backslash", s,
				maxText)
		}
	}
	return nil
}

// plain reports whether an id is one that [NewID] may have made.
func plain(id string) bool {
	return id != "" && !strings.ContainsFunc(id, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}

// validScope goes by RFC 6749 §3.3.
func validScope(s string) bool {
	return s != "" && len(s) <= maxText && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == '\\'
	})
}

// Has reports whether p may claim a scope.
func (p Principal) Has(scope string) bool {
	return slices.Contains(p.Scopes, scope) || slices.Contains(p.Scopes, ScopeAll)
}

// User is the name by which the server knows a connection with this token, also after it was renewed.
func (p Principal) User() string {
	return string(p.Role) + "." + subjects.Token(p.Tenant) + "." + subjects.Token(p.Actor) + "." + p.Family
}

// Root returns the first family of p.Chain, or p.Family if p was not narrowed. All tokens that were made from one
// issued token have the same root.
func (p Principal) Root() string {
	if len(p.Chain) > 0 {
		return p.Chain[0]
	}
	return p.Family
}

// narrowedPart is how much longer the family of a narrowed token is than its root.
const narrowedPart = 12

// RootOf returns the root of a family that [NewID] or [Principal.Narrow] has made, see [Principal.Root].
func RootOf(family string) string {
	if len(family) > idLength {
		return family[:len(family)-narrowedPart]
	}
	return family
}

// MayUseConnectionOf reports whether a connection of that user may bring requests of p: its own, or as a door of its
// tenant.
func (p Principal) MayUseConnectionOf(user string) bool {
	return user == p.User() || strings.HasPrefix(user, string(Gateway)+"."+subjects.Token(p.Tenant)+".")
}

// Renewed returns p as a new token from now on, with the rights and the life that it had, at most [MaxLife]. It returns
// [ErrNotRenewable] from p.RenewUntil on.
func (p Principal) Renewed(now time.Time) (Principal, error) {
	if !now.Before(p.RenewUntil) {
		return Principal{}, ErrNotRenewable
	}
	life := min(MaxLife, p.Expires.Sub(p.Issued))
	p.ID, p.Issued = NewID(), latest(now, p.Issued)
	p.Expires = earliest(now.Add(life), p.RenewUntil)
	return p, nil
}

// Narrowing is what a narrowed token may still do. What is left empty stays as it is, but for the scopes: none is none.
type Narrowing struct {
	Actor     string // a part of the actor: its name, a slash, and more
	Scopes    []string
	Run, Lane string
	Life      time.Duration // default: as long as the one that it is made from
}

// ErrScopeExceeded means that a token was asked for with more rights than the one that it is to be made from.
var ErrScopeExceeded = errors.New("a token can only be narrowed")

// Narrow returns a token with less rights and the role of p, which ends with p at the latest and is revoked with it.
// Only an agent's token can be narrowed to a sub-actor: such a token calls tools, which no other role may.
func (p Principal) Narrow(l Narrowing, now time.Time) (Principal, error) {
	child := p
	if len(p.Chain) == 0 {
		child.Origin = p.Role
	}
	child.Chain = append(slices.Clone(p.Chain), p.Family)
	child.ID, child.Issued = NewID(), latest(now, p.Issued)
	child.Family = p.Root() + NewID()[:narrowedPart]
	child.Scopes = sorted(l.Scopes)
	for _, s := range child.Scopes {
		if !p.Has(s) {
			return Principal{}, fmt.Errorf("%w: it has no scope %.40q", ErrScopeExceeded, s)
		}
	}
	if l.Actor != "" && l.Actor != p.Actor {
		switch {
		case p.Role != Agent:
			return Principal{}, fmt.Errorf("%w: only an agent's token can be narrowed to a sub-actor", ErrScopeExceeded)
		case !IsSub(l.Actor, p.Actor):
			return Principal{}, fmt.Errorf("%w: %.100q does not start with %.100q", ErrScopeExceeded, l.Actor, p.Actor+"/")
		}
		child.Actor = l.Actor
	}
	var err error
	if child.Run, err = one("run", p.Run, l.Run); err != nil {
		return Principal{}, err
	}
	if child.Lane, err = one("lane", p.Lane, l.Lane); err != nil {
		return Principal{}, err
	}
	if l.Life > 0 {
		child.RenewUntil = earliest(p.RenewUntil, now.Add(l.Life))
		child.Expires = earliest(p.Expires, now.Add(l.Life))
	}
	return child, child.Check()
}

func one(what, has, wants string) (string, error) {
	if has != "" && wants != "" && wants != has {
		return "", fmt.Errorf("%w: it is for %s %.40q alone", ErrScopeExceeded, what, has)
	}
	if wants != "" {
		return wants, nil
	}
	return has, nil
}

func sorted(scopes []string) []string {
	scopes = slices.Clone(scopes)
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

// latest returns the later time. A token is not issued before the one that it was made from: the actor may have been
// barred in the same second, see [Revocations.ActorRevokedAt].
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// ValidID reports whether an id of a token or a family is one that [NewID] may have made.
func ValidID(id string) bool { return plain(id) && len(id) <= maxText }
