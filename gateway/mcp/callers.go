package mcp

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// callers holds the HTTP callers that sent a token, each with a client that sends the token with every message: so the
// bus decides what each caller may list and call. Tokens that were narrowed from the same token share its quotas.
type callers struct {
	tenant string // of the gateway; tokens of other tenants are rejected
	client func(toolbus.ClientOptions) (*toolbus.Client, error)
	asking singleflight.Group

	mu                      sync.Mutex
	by                      map[tokenSum]*caller
	requests, calls, places quota
}

type tokenSum [sha256.Size]byte

// caller is an HTTP caller with a token.
type caller struct {
	client    *toolbus.Client
	principal auth.Principal
	sum       tokenSum

	// Under the lock of callers.
	verified time.Time // when the bus accepted the token last
	used     time.Time
	busy     int  // requests and calls on their way, and questions about it
	gone     bool // removed, or not kept yet
}

// root returns the family of the token that the token of the caller was narrowed from, or its own family.
func (at *caller) root() string {
	if len(at.principal.Chain) > 0 {
		return at.principal.Chain[0]
	}
	return at.principal.Family
}

const (
	// maxCallers is how many tokens a door remembers at once. One that it has forgotten is asked about again.
	maxCallers = 1000
	// verifiedFor is for how long a token is not asked about again. What is sent with it is checked in any case: this
	// is for how long a caller whose token has ended is told so in the answer to a call, and not by 401.
	verifiedFor = 10 * time.Second
	// admitTime is how long the bus may take to say whose a token is. It is short, since it is beside the deadline of a
	// call, and no answer is one that may be asked for again.
	admitTime = 2 * time.Second
)

// rejection is the reason why a token was rejected, with the HTTP status of the answer.
type rejection struct {
	status int
	why    string
}

func (b *rejection) Error() string { return b.why }

// admit authenticates a token for one request and returns its caller. Call leave when the request has ended.
func (g *callers) admit(ctx context.Context, token string) (*caller, error) {
	says, err := g.read(token)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(token))
	as, err := g.enter(sum)
	if err != nil {
		return nil, err
	}
	at, err := g.verify(ctx, sum, token, says)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil && as == at.root() {
		return at, nil
	}
	g.requests.give(as)
	if err != nil {
		return nil, err
	}
	if !g.requests.take(at.root()) {
		g.release(at)
		return nil, overQuota
	}
	return at, nil
}

// What is said of those that have their share, and of those that find no room.
var (
	overQuota  = &rejection{http.StatusTooManyRequests, "too many requests of yours at once: try again later"}
	overloaded = &rejection{http.StatusServiceUnavailable, "too many callers at once: try again later"}
)

// unverified is whoever comes with a token that is not known: all of them together are one caller.
const unverified = ""

// enter counts a request, and returns whose it is.
func (g *callers) enter(sum tokenSum) (as string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.by[sum]
	switch {
	case at == nil && g.requests.take(unverified):
		return unverified, nil
	case at == nil:
		return "", overloaded
	case g.requests.take(at.root()):
		return at.root(), nil
	}
	return "", overQuota
}

// leave ends a request of a caller.
func (g *callers) leave(at *caller) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests.give(at.root())
	g.release(at)
}

// calling counts a call of a caller, which may outlive its request. It returns false if the caller has too many calls.
// Call called when the call has ended.
func (g *callers) calling(at *caller) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.calls.take(at.root()) {
		return false
	}
	at.busy++
	return true
}

func (g *callers) called(at *caller) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls.give(at.root())
	g.release(at)
}

// read returns the claims of a token without verifying its signature.
func (g *callers) read(token string) (auth.Principal, error) {
	says, err := auth.Inspect(token)
	switch {
	case len(token) > auth.MaxToken || err != nil:
		err = &rejection{http.StatusUnauthorized, "the token is none of Toolbus"}
	case !time.Now().Before(says.Expires):
		err = &rejection{http.StatusUnauthorized, "the token has expired: renew it, or ask for a new one"}
	case says.Tenant != g.tenant:
		err = &rejection{http.StatusForbidden, fmt.Sprintf("this door is for the tenant %s", g.tenant)}
	}
	return says, err
}

// verify returns the caller of a token that the bus accepts, and counts one more use of it.
func (g *callers) verify(ctx context.Context, sum tokenSum, token string, says auth.Principal) (*caller, error) {
	if at := g.find(sum, time.Now().Add(-verifiedFor)); at != nil {
		return at, nil
	}
	_, err, _ := g.asking.Do(string(sum[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), admitTime)
		defer cancel()
		return nil, g.ask(ctx, sum, token, says)
	})
	if err != nil {
		return nil, err
	}
	if at := g.find(sum, time.Time{}); at != nil {
		return at, nil
	}
	return nil, overloaded
}

// find returns the caller of a token that the bus accepted after since, and counts one more use of it; nil if there is
// none.
func (g *callers) find(sum tokenSum, since time.Time) *caller {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.by[sum]
	if at == nil || !at.verified.After(since) {
		return nil
	}
	at.busy++
	at.used = time.Now()
	return at
}

// release ends one use of a caller. Callers of it hold g.mu.
func (g *callers) release(at *caller) {
	if at.busy--; at.gone && at.busy == 0 {
		_ = at.client.Close() // nobody waits for it
	}
}

// ask asks the bus whether it believes a token. The question is one that any agent may ask, and that needs no look at
// any log: that it makes no sense is the answer to somebody who is believed.
func (g *callers) ask(ctx context.Context, sum tokenSum, token string, says auth.Principal) error {
	at, err := g.lookUp(sum, token, says)
	if err != nil {
		return err
	}
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.release(at)
	}()
	_, err = at.client.Result(ctx, envelope.CallRef{Ref: "-"})
	refused, ok := errors.AsType[*toolbus.Error](err)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !ok:
		return &rejection{http.StatusServiceUnavailable, fmt.Sprintf(
			"the bus does not say whose the token is, so nothing was done: ask again (%v)", err)}
	case codeOf(refused.Reason()) == codeDenied:
		g.drop(at)
		return &rejection{http.StatusUnauthorized, refused.Reason().Message}
	case refused.Code() == envelope.CodeForbidden:
		g.drop(at)
		return &rejection{http.StatusForbidden, refused.Reason().Message}
	case refused.Code() != envelope.CodeMalformed:
		return &rejection{http.StatusServiceUnavailable, refused.Reason().Message}
	}
	return g.keep(at)
}

// lookUp returns the caller of a token and counts one more use of it. A new caller has a client of its own, and is not
// in g.by yet.
func (g *callers) lookUp(sum tokenSum, token string, says auth.Principal) (*caller, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := g.by[sum]; at != nil {
		at.busy++
		return at, nil
	}
	client, err := g.client(toolbus.ClientOptions{
		Tenant: says.Tenant, Actor: says.Actor, Token: func() string { return token },
	})
	if err != nil {
		return nil, &rejection{http.StatusServiceUnavailable, err.Error()}
	}
	return &caller{client: client, principal: says, sum: sum, busy: 1, gone: true}, nil
}

// keep notes that the bus accepts the token of a caller. Callers of it, and of the methods below, hold g.mu.
func (g *callers) keep(at *caller) error {
	at.verified = time.Now()
	if !at.gone {
		return nil
	}
	for !g.places.take(at.root()) {
		oldest := g.dispensable(g.places.by[at.root()])
		if oldest == nil {
			return overloaded
		}
		g.drop(oldest)
	}
	if g.by == nil {
		g.by = map[tokenSum]*caller{}
	}
	g.by[at.sum], at.gone = at, false
	return nil
}

// dispensable returns the guest that was here longest ago and has nothing on its way, of those that have as many seats.
func (g *callers) dispensable(seats int) (oldest *caller) {
	for _, at := range g.by {
		if at.busy == 0 && g.places.by[at.root()] >= seats && (oldest == nil || at.used.Before(oldest.used)) {
			oldest = at
		}
	}
	return oldest
}

// drop removes a caller, if it was kept. Its calls end as the bus decides.
func (g *callers) drop(at *caller) {
	if at.gone {
		return
	}
	delete(g.by, at.sum)
	g.places.give(at.root())
	if at.gone = true; at.busy == 0 {
		_ = at.client.Close() // nobody waits for it
	}
}

// close ends all clients.
func (g *callers) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, at := range g.by {
		g.drop(at)
	}
}
