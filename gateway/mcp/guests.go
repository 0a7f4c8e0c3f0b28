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
	"github.com/seed-018f16cc/toolbus/identity"
	"github.com/seed-018f16cc/toolbus/question"
)

// guests are callers that come with a token of their own, each with a client that says it with all that it sends: so
// the bus decides what each may do, for lists and for calls.
type guests struct {
	tenant string // of the door, beyond which it may not speak
	most   int    // requests, and calls, that one guest may have on their way: others have some, too
	client func(toolbus.ClientOptions) (*toolbus.Client, error)
	asking singleflight.Group

	mu sync.Mutex
	by map[tokenSum]*guest
}

type tokenSum [sha256.Size]byte

// guest is somebody with a token.
type guest struct {
	client *toolbus.Client
	says   identity.Principal
	sum    tokenSum

	// Under the lock of guests.
	believed time.Time // when the bus did so last
	used     time.Time
	requests int // on their way
	calls    int // the same
	gone     bool
}

const (
	// maxGuests is how many tokens a door remembers at once.
	maxGuests = 1000
	// belief is for how long a token is not asked about again. What is sent with it is checked in any case: this is for
	// how long a caller whose token has ended is told so in the answer to a call, and not by 401.
	belief = 10 * time.Second
	// admitTime is how long the bus may take to say whose a token is. It is short, since it is beside the deadline of a
	// call, and no answer is one that may be asked for again.
	admitTime = 2 * time.Second
)

// barred says why nobody is let in with a token, as a status of HTTP.
type barred struct {
	status int
	why    string
}

func (b *barred) Error() string { return b.why }

// admit returns the guest whose token it is, once the bus believes it, for a request of its. Leave it when done.
func (g *guests) admit(ctx context.Context, token string) (*guest, error) {
	at, err := g.believe(ctx, token)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if at.requests > g.most {
		g.left(at, &at.requests)
		return nil, &barred{http.StatusTooManyRequests, "too many requests of yours at once: try again later"}
	}
	return at, nil
}

// believe returns the guest whose token it is, and counts a request of its.
func (g *guests) believe(ctx context.Context, token string) (*guest, error) {
	says, err := identity.Inspect(token)
	switch {
	case len(token) > identity.MaxToken || err != nil:
		return nil, &barred{http.StatusUnauthorized, "the token is none of Toolbus"}
	case !time.Now().Before(says.Expires):
		return nil, &barred{http.StatusUnauthorized, "the token has expired: renew it, or ask for a new one"}
	case says.Tenant != g.tenant:
		return nil, &barred{http.StatusForbidden, fmt.Sprintf("this door is for the tenant %s", g.tenant)}
	}
	sum := sha256.Sum256([]byte(token))
	if at := g.take(sum, time.Now().Add(-belief)); at != nil {
		return at, nil
	}
	_, err, _ = g.asking.Do(string(sum[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), admitTime)
		defer cancel()
		return nil, g.ask(ctx, sum, token, says)
	})
	if err != nil {
		return nil, err
	}
	if at := g.take(sum, time.Time{}); at != nil {
		return at, nil
	}
	return nil, &barred{http.StatusServiceUnavailable, "too many callers at once: try again later"}
}

// take returns the guest with a token that was believed after since, for a request of its.
func (g *guests) take(sum tokenSum, since time.Time) *guest {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.by[sum]
	if at == nil || !at.believed.After(since) {
		return nil
	}
	at.requests++
	at.used = time.Now()
	return at
}

// calling counts a call of a guest, which may outlive the request that it came with, unless it has too many. Take it
// back with called.
func (g *guests) calling(at *guest) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at.calls >= g.most {
		return false
	}
	at.calls++
	return true
}

func (g *guests) called(at *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left(at, &at.calls)
}

// leave ends a request of a guest.
func (g *guests) leave(at *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left(at, &at.requests)
}

// left takes one away from what a guest has on its way. It is called under the lock.
func (g *guests) left(at *guest, of *int) {
	if *of--; at.gone && at.idle() {
		_ = at.client.Close() // nobody waits for it
	}
}

func (at *guest) idle() bool { return at.requests == 0 && at.calls == 0 }

// ask asks the bus whether it believes a token. The question is one that any agent may ask, and that needs no look at
// any log: that it makes no sense is the answer to somebody who is believed.
func (g *guests) ask(ctx context.Context, sum tokenSum, token string, says identity.Principal) error {
	at, err := g.seat(sum, token, says)
	if err != nil {
		return err
	}
	defer g.leave(at)
	_, err = at.client.Result(ctx, question.Call{Ref: "-"})
	refused, ok := errors.AsType[*toolbus.Refusal](err)
	switch {
	case !ok:
		return &barred{http.StatusServiceUnavailable, fmt.Sprintf(
			"the bus does not say whose the token is, so nothing was done: ask again (%v)", err)}
	case codeOf(refused.Reason) == codeDenied:
		g.forget(at)
		return &barred{http.StatusUnauthorized, refused.Reason.Message}
	case refused.Reason.Code == envelope.CodeForbidden:
		g.forget(at)
		return &barred{http.StatusForbidden, refused.Reason.Message}
	case refused.Reason.Code != envelope.CodeMalformed:
		return &barred{http.StatusServiceUnavailable, refused.Reason.Message}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	at.believed = time.Now()
	return nil
}

// seat returns the guest with a token, with a client of its own, for one that asks.
func (g *guests) seat(sum tokenSum, token string, says identity.Principal) (*guest, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.by[sum]
	if at == nil {
		if err := g.makeRoom(); err != nil {
			return nil, err
		}
		client, err := g.client(toolbus.ClientOptions{
			Tenant: says.Tenant, Actor: says.Actor, Token: func() string { return token },
		})
		if err != nil {
			return nil, &barred{http.StatusServiceUnavailable, err.Error()}
		}
		at = &guest{client: client, says: says, sum: sum}
		if g.by == nil {
			g.by = map[tokenSum]*guest{}
		}
		g.by[sum] = at
	}
	at.requests++
	return at, nil
}

// makeRoom sees the guest off that was here longest ago.
func (g *guests) makeRoom() error {
	if len(g.by) < maxGuests {
		return nil
	}
	var oldest *guest
	for _, at := range g.by {
		if at.idle() && (oldest == nil || at.used.Before(oldest.used)) {
			oldest = at
		}
	}
	if oldest == nil {
		return &barred{http.StatusServiceUnavailable, "too many callers at once: try again later"}
	}
	g.drop(oldest)
	return nil
}

// drop sees a guest off, whose calls end as the bus says. It is called under the lock.
func (g *guests) drop(at *guest) {
	delete(g.by, at.sum)
	if at.gone = true; at.idle() {
		_ = at.client.Close() // nobody waits for it
	}
}

// forget sees a guest off whose token is not believed.
func (g *guests) forget(at *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(at)
}

// close ends all clients.
func (g *guests) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, at := range g.by {
		g.drop(at)
	}
}
