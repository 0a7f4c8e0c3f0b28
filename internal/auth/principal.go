package auth

import (
	"cmp"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Role determines what the holder of a token may do: the operations of the service, and [Permissions].
type Role = operation.Role

// The roles of tokens.
const (
	Agent    = operation.Agent
	Gateway  = operation.Gateway
	Auditor  = operation.Auditor
	Executor = operation.Executor
	Operator = operation.Operator
)

// Roles returns all roles.
func Roles() []Role { return []Role{Agent, Gateway, Auditor, Executor, Operator} }

// Scopes that the bus itself interprets.
const (
	ScopeAll   = "*"         // includes every other scope
	ScopeAudit = "audit:all" // of an auditor: the audit record of all tenants
	ScopeRun   = "run:start" // of an agent: starts and closes runs of its own
)

// Principal is the content of a token: its holder, rights and times. The zero value is not valid, see
// [Principal.Check].
type Principal struct {
	Tenant, Actor string
	Role          Role
	Scopes        []string // the scopes that its calls may use; sorted
	RoleIDs       []string // the roles of a policy that its calls may have, sorted; see [Principal.Carries]
	Run, Lane     string   // the only run and lane of its calls; "" is any
	Pool          string   // set if and only if Role is Executor

	ID     string   // of this token
	Family string   // names the credential: renewal keeps it, and revocation revokes it
	Chain  []string // the families of the tokens that this one was narrowed from, the oldest first
	// Origin is the role of the first token of Chain, "" if Chain is empty.
	Origin Role

	Issued, Expires time.Time // whole seconds
	RenewUntil      time.Time // until then the token can be renewed, even if it has expired; zero: never
	KeyID           string    // of the key that signed the token
}

// Limits of tokens. A token must fit into the CONNECT line that a client sends to the server, and into each request.
const (
	MaxToken  = 2048 // bytes
	MaxScopes = 32
	maxText   = 256 // of a scope, a run, a lane or a pool
	maxChain  = 8
)

// Life is the default lifetime of a token, and MaxLife the longest. Clients that renew their tokens need no longer
// lifetime than Life. Clients of a gateway cannot renew their tokens. Revocations are kept for longer than MaxLife.
const (
	Life    = 15 * time.Minute
	MaxLife = 24 * time.Hour
)

// idLength is the length of an id of [NewID] in bytes.
const idLength = 20

// NewID returns a random id for a token or a family: 20 lowercase letters and digits.
func NewID() string { return strings.ToLower(rand.Text()[:idLength]) }

// IDFrom returns an id as that of [NewID], made from at least 13 random bytes.
func IDFrom(random []byte) string {
	return strings.ToLower(base32.StdEncoding.EncodeToString(random)[:idLength])
}

// IsSub reports whether actor is a sub-actor of the actor of: its name is of, a slash, and at least one more byte. The
// slashes of "agent://" do not count.
func IsSub(actor, of string) bool {
	return len(actor) > len(of) && actor[len(of)] == '/' && actor[:len(of)] == of && strings.TrimRight(of, ":/") == of
}

// Check returns an error if p is not a valid content of a token.
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
	return p.checkRoleIDs()
}

// plain reports whether an id consists of lowercase letters and digits, and is not empty.
func plain(id string) bool {
	return id != "" && !strings.ContainsFunc(id, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}

// validScope reports whether s is a scope by RFC 6749 §3.3 and not too long.
func validScope(s string) bool {
	return s != "" && len(s) <= maxText && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == '\\'
	})
}

// Has reports whether p has a scope, or [ScopeAll].
func (p Principal) Has(scope string) bool {
	return slices.Contains(p.Scopes, scope) || slices.Contains(p.Scopes, ScopeAll)
}

// User returns the NATS user name of connections with this token. A renewed token has the same name.
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

// RootOf returns the root of a family that [NewID] or [Principal.Narrow] created, see [Principal.Root].
func RootOf(family string) string {
	if len(family) > idLength {
		return family[:len(family)-narrowedPart]
	}
	return family
}

// MayUseConnectionOf reports whether requests of p may come over a connection of the NATS user: its own user, or a
// gateway of its tenant.
func (p Principal) MayUseConnectionOf(user string) bool {
	return user == p.User() || strings.HasPrefix(user, string(Gateway)+"."+subjects.Token(p.Tenant)+".")
}

// Renewed returns the content of a token that replaces p. It is issued now and has the same rights and lifetime, but
// lives at most [MaxLife] and not beyond p.RenewUntil. From p.RenewUntil on it returns [ErrNotRenewable].
func (p Principal) Renewed(now time.Time) (Principal, error) {
	if !now.Before(p.RenewUntil) {
		return Principal{}, ErrNotRenewable
	}
	life := min(MaxLife, p.Expires.Sub(p.Issued))
	p.ID, p.Issued = NewID(), latest(now, p.Issued)
	p.Expires = earliest(now.Add(life), p.RenewUntil)
	return p, nil
}

// Narrowing describes the rights of a narrowed token. An empty field leaves that right unchanged, except Scopes:
// without scopes, the narrowed token has none.
type Narrowing struct {
	ID        string // of the new token; default: random
	Actor     string // the actor or a sub-actor, see [IsSub]
	Scopes    []string
	RoleIDs   []string
	Run, Lane string
	Life      time.Duration // default: until the original token ends
}

// ErrScopeExceeded means that a narrowed token would have more rights than the original.
var ErrScopeExceeded = errors.New("a token can only be narrowed")

// Narrow returns the content of a token with the role of p and the rights of l. It ends when p ends or earlier, and is
// revoked if p is. Only an agent's token can be narrowed to a sub-actor. Narrow returns [ErrScopeExceeded] if l has a
// right that p does not have.
func (p Principal) Narrow(l Narrowing, now time.Time) (Principal, error) {
	child := p
	if len(p.Chain) == 0 {
		child.Origin = p.Role
	}
	child.Chain = append(slices.Clone(p.Chain), p.Family)
	child.ID, child.Issued = cmp.Or(l.ID, NewID()), latest(now, p.Issued)
	child.Family = p.Root() + child.ID[:narrowedPart]
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
	if child.RoleIDs, err = p.narrowRoleIDs(l.RoleIDs); err != nil {
		return Principal{}, err
	}
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

// latest returns the later time. A token must not be issued before the token that it was made from, whose time of issue
// may be up to 1 s in the future: see tokenstore.Store.afterBar.
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

// IsFamily reports whether id has the form of a family that [NewFamily] or [Principal.Narrow] created.
func IsFamily(id string) bool {
	return plain(id) && (len(id) == idLength || len(id) == idLength+narrowedPart)
}

// ValidID reports whether id is a valid id of a token or a family: 1 to 256 lowercase letters and digits.
func ValidID(id string) bool { return plain(id) && len(id) <= maxText }
