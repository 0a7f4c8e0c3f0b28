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
	cache                   map[tokenSum]*caller
	requests, calls, places quota
}

type tokenSum [sha256.Size]byte

// caller is an HTTP caller with a token.
type caller struct {
	client    *toolbus.Client
	tools     viewer // of client
	principal auth.Principal
	sum       tokenSum

	// The fields below are guarded by callers.mu.
	verified time.Time // time at which the bus accepted the token last
	used     time.Time
	busy     int  // number of its requests, calls and verifications that run
	gone     bool // removed, or not kept yet
}

// root returns the family of the token that the token of the caller was narrowed from, or its own family.
func (c *caller) root() string {
	if len(c.principal.Chain) > 0 {
		return c.principal.Chain[0]
	}
	return c.principal.Family
}

const (
	// maxCallers is the largest number of tokens in the cache.
	maxCallers = 1000
	// verifiedFor is the time during which the gateway accepts a token without asking a dispatcher again. Dispatchers
	// still check every call. So for up to 10 s after a revocation, a caller sees the refusal in the answer to a call, not
	// as HTTP 401.
	verifiedFor = 10 * time.Second
	// admitTime is the longest wait for a dispatcher to verify a token. It is short, because it adds to the time of a
	// call, and because the client can try again.
	admitTime = 2 * time.Second
)

// rejection is the reason why a token was rejected, with the HTTP status of the answer.
type rejection struct {
	status int
	why    string
}

func (r *rejection) Error() string { return r.why }

// admit authenticates a token for one request and returns its caller. Call leave when the request has ended.
func (c *callers) admit(ctx context.Context, token string) (*caller, error) {
	claims, err := c.read(token)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(token))
	root, err := c.enter(sum)
	if err != nil {
		return nil, err
	}
	at, err := c.verify(ctx, sum, token, claims)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && root == at.root() {
		return at, nil
	}
	c.requests.give(root)
	if err != nil {
		return nil, err
	}
	if !c.requests.take(at.root()) {
		c.release(at)
		return nil, overQuota
	}
	return at, nil
}

// Rejections of a caller that has used its share, and of any caller if the gateway is full.
var (
	overQuota  = &rejection{http.StatusTooManyRequests, "too many requests of yours at once: try again later"}
	overloaded = &rejection{http.StatusServiceUnavailable, "too many callers at once: try again later"}
)

// unverified is the root of all tokens that are not in the cache: together they count as one caller.
const unverified = ""

// enter takes a unit of the request quota, and returns the root that it counts for.
func (c *callers) enter(sum tokenSum) (root string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.cache[sum]
	switch {
	case at == nil && c.requests.take(unverified):
		return unverified, nil
	case at == nil:
		return "", overloaded
	case c.requests.take(at.root()):
		return at.root(), nil
	}
	return "", overQuota
}

// leave ends a request of a caller.
func (c *callers) leave(at *caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests.give(at.root())
	c.release(at)
}

// calling counts a call of a caller, which may outlive its request. It returns false if the caller has too many calls.
// Call called when the call has ended.
func (c *callers) calling(at *caller) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.calls.take(at.root()) {
		return false
	}
	at.busy++
	return true
}

func (c *callers) called(at *caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.give(at.root())
	c.release(at)
}

// read returns the claims of a token without verifying its signature.
func (c *callers) read(token string) (auth.Principal, error) {
	claims, err := auth.Inspect(token)
	switch {
	case len(token) > auth.MaxToken || err != nil:
		err = &rejection{http.StatusUnauthorized, "the token is not a Toolbus token: send one that an operator has issued"}
	case !time.Now().Before(claims.Expires):
		err = &rejection{http.StatusUnauthorized, "the token has expired: renew it, or ask for a new one"}
	case claims.Tenant != c.tenant:
		err = &rejection{
			http.StatusForbidden, fmt.Sprintf("the gateway serves only the tenant %s: send a token of that tenant", c.tenant),
		}
	}
	return claims, err
}

// verify returns the caller of a token that the bus accepts, and increments its busy.
func (c *callers) verify(ctx context.Context, sum tokenSum, token string, claims auth.Principal) (*caller, error) {
	if at := c.find(sum, time.Now().Add(-verifiedFor)); at != nil {
		return at, nil
	}
	_, err, _ := c.asking.Do(string(sum[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), admitTime)
		defer cancel()
		return nil, c.ask(ctx, sum, token, claims)
	})
	if err != nil {
		return nil, err
	}
	if at := c.find(sum, time.Time{}); at != nil {
		return at, nil
	}
	return nil, overloaded
}

// find returns the caller of a token that the bus accepted after since, and increments its busy. It returns nil if
// there is none.
func (c *callers) find(sum tokenSum, since time.Time) *caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.cache[sum]
	if at == nil || !at.verified.After(since) {
		return nil
	}
	at.busy++
	at.used = time.Now()
	return at
}

// release decrements the busy of a caller. Callers hold c.mu.
func (c *callers) release(at *caller) {
	if at.busy--; at.gone && at.busy == 0 {
		_ = at.client.Close() // nobody waits for it
	}
}

// ask asks a dispatcher whether it accepts a token. It sends a request that every agent may send, with an invalid
// reference, so that no log is read: the error about the reference means that the token is accepted.
func (c *callers) ask(ctx context.Context, sum tokenSum, token string, claims auth.Principal) error {
	at, err := c.lookUp(sum, token, claims)
	if err != nil {
		return err
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.release(at)
	}()
	_, err = at.client.Result(ctx, envelope.CallRef{Ref: "-"})
	refused, ok := errors.AsType[*toolbus.Error](err)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !ok:
		return &rejection{http.StatusServiceUnavailable, fmt.Sprintf(
			"the bus does not say whose the token is, so nothing was done: ask again (%v)", err)}
	case codeOf(refused.Reason()) == codeDenied:
		c.drop(at)
		return &rejection{http.StatusUnauthorized, refused.Reason().Message}
	case refused.Code() == envelope.CodeForbidden:
		c.drop(at)
		return &rejection{http.StatusForbidden, fmt.Sprintf("a token of the role %s neither lists nor calls tools: send the "+
			"token of an agent; `toolbus credentials issue --actor agent://NAME` of an operator makes one", claims.Role)}
	case refused.Code() != envelope.CodeMalformed:
		return &rejection{http.StatusServiceUnavailable, refused.Reason().Message}
	}
	return c.keep(at)
}

// lookUp returns the caller of a token, and increments its busy. A new caller has its own client, and is not in c.by
// yet.
func (c *callers) lookUp(sum tokenSum, token string, claims auth.Principal) (*caller, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.cache[sum]; at != nil {
		at.busy++
		return at, nil
	}
	client, err := c.client(toolbus.ClientOptions{
		Tenant: claims.Tenant, Actor: claims.Actor, Token: func() string { return token },
	})
	if err != nil {
		return nil, &rejection{http.StatusServiceUnavailable, err.Error()}
	}
	return &caller{client: client, tools: viewer{client: client}, principal: claims, sum: sum, busy: 1, gone: true}, nil
}

// keep records that the bus accepts the token of a caller, and adds the caller to c.by. Callers of keep, dispensable
// and drop hold c.mu.
func (c *callers) keep(at *caller) error {
	at.verified = time.Now()
	if !at.gone {
		return nil
	}
	for !c.places.take(at.root()) {
		oldest := c.dispensable(c.places.held[at.root()])
		if oldest == nil {
			return overloaded
		}
		c.drop(oldest)
	}
	if c.cache == nil {
		c.cache = map[tokenSum]*caller{}
	}
	c.cache[at.sum], at.gone = at, false
	return nil
}

// dispensable returns the least recently used idle caller among those whose root holds at least seats places, or nil.
func (c *callers) dispensable(seats int) (oldest *caller) {
	for _, at := range c.cache {
		if at.busy == 0 && c.places.held[at.root()] >= seats && (oldest == nil || at.used.Before(oldest.used)) {
			oldest = at
		}
	}
	return oldest
}

// drop removes a caller, if it is in c.by. Its running calls go on.
func (c *callers) drop(at *caller) {
	if at.gone {
		return
	}
	delete(c.cache, at.sum)
	c.places.give(at.root())
	if at.gone = true; at.busy == 0 {
		_ = at.client.Close() // nobody waits for it
	}
}

// close removes all callers.
func (c *callers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.cache {
		c.drop(at)
	}
}
