package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// Keeper returns the access token of a grant, and renews it. It is safe for concurrent use. Several keepers of one
// grant, in any number of processes, agree by the entry in their store.
type Keeper struct {
	grant  Grant
	name   string // of the server
	store  Store
	client *http.Client

	newest atomic.Pointer[known]
	turn   chan struct{} // holds one token: locks the fields below, and the change of newest

	held   hold
	failed error // of the last renewal
	retry  time.Time
}

// known is an entry that this process knows.
type known struct {
	entry
	unsaved bool // this process has renewed it, and the store does not have it yet
}

// hold is a revision of the entry in which another process renews.
type hold struct {
	revision uint64
	since    time.Time // when this process has first read it
}

// NewKeeper returns a keeper for the server with a name. client sends the requests for tokens.
func NewKeeper(name string, g Grant, s Store, client *http.Client) *Keeper {
	k := &Keeper{grant: g, name: name, store: s, client: client, turn: make(chan struct{}, 1)}
	k.newest.Store(&known{})
	k.turn <- struct{}{}
	return k
}

// Wait returns when no renewal of this process is under way. A process that ends during one loses the refresh token.
func (k *Keeper) Wait() {
	<-k.turn
	k.turn <- struct{}{}
}

// Limits of one renewal. After maxHold without a change, another process takes the renewal over: the first one has
// ended. After a renewal that failed, a process tries again after retryAfter.
const (
	renewTime  = 20 * time.Second
	storeTime  = 10 * time.Second
	maxHold    = renewTime + storeTime + 5*time.Second
	pollEvery  = 100 * time.Millisecond
	retryAfter = 2 * time.Second
)

// patience is how long a call waits for a new token while it can use the old one.
const patience = time.Second

// LoginError means that the authorization server takes the refresh token no more. An operator must log in again.
type LoginError struct{ server, why string }

func (e *LoginError) Error() string {
	return fmt.Sprintf("the login at server %s is not valid any more (%s): %s", e.server, e.why, again(e.server))
}

// Refused returns the error for a server that refuses even a new token.
func (k *Keeper) Refused() error { return &LoginError{k.name, "the server refuses a new token"} }

// Token returns an access token. refused is the token that the server has refused, or "". Token waits for a renewal if
// it has to. The error is a *[LoginError] if an operator must log in again.
func (k *Keeper) Token(ctx context.Context, refused string) (string, error) {
	old := k.newest.Load()
	if !old.unsaved && old.good(refused, time.Now()) {
		return old.Tokens.Access, nil
	}
	var enough <-chan time.Time
	usable := old.serves(refused, time.Now())
	if usable {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case <-k.turn:
	default:
		if usable {
			return old.Tokens.Access, nil // another call renews
		}
		select {
		case <-k.turn:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	return k.begin(ctx, refused, old.Tokens.Access, enough)
}

// begin looks for an access token in another goroutine, which goes on when ctx has ended. It returns the old token when
// that has taken enough time.
func (k *Keeper) begin(ctx context.Context, refused, old string, enough <-chan time.Time) (string, error) {
	type answer struct {
		token string
		err   error
	}
	found := make(chan answer, 1)
	go func() {
		token, err := k.look(ctx, refused)
		k.turn <- struct{}{}
		found <- answer{token, err}
	}()
	select {
	case a := <-found:
		return a.token, a.err
	case <-enough:
		return old, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// look takes the steps to an access token.
func (k *Keeper) look(ctx context.Context, refused string) (string, error) {
	for {
		token, err := k.step(ctx, refused)
		if _, over := errors.AsType[*LoginError](err); over {
			return "", err
		}
		e := k.newest.Load()
		if err != nil && !errors.Is(err, errSeal) && e.serves(refused, time.Now()) {
			return e.Tokens.Access, nil
		}
		if err != nil {
			return "", fmt.Errorf("the token for server %s: %w", k.name, err)
		}
		if token != "" {
			return token, nil
		}
	}
}

// serves reports whether the access token of e can be used.
func (e entry) serves(refused string, now time.Time) bool {
	return e.Tokens.Access != "" && e.Tokens.Access != refused && e.Refused == "" && e.Tokens.usable(now)
}

// good reports whether e can be used without a look at the store.
func (e entry) good(refused string, now time.Time) bool {
	return e.serves(refused, now) && !e.Tokens.due(now)
}

// step reads the entry, and does what comes next. It returns "" if it must be called again.
func (k *Keeper) step(ctx context.Context, refused string) (string, error) {
	e, revision, err := k.read(ctx)
	if err != nil {
		return "", err
	}
	if last := k.newest.Load(); e.Generation < last.Generation {
		return "", k.put(ctx, last.entry, revision)
	}
	k.newest.Store(&known{entry: e})
	now := time.Now()
	switch {
	case revision == 0:
		return "", k.put(ctx, e, revision)
	case e.Refused != "":
		return "", &LoginError{k.name, e.Refused}
	case e.good(refused, now):
		return e.Tokens.Access, nil
	case e.Tokens.Access == refused && e.Tokens.young(now):
		return "", k.Refused()
	case e.Tokens.Refresh == "" && !e.serves(refused, now):
		return "", &LoginError{k.name, "it has no refresh token"}
	case e.Tokens.Refresh == "":
		return e.Tokens.Access, nil
	case now.Before(k.retry):
		return "", k.failed
	case !k.busy(e, revision, now):
		return "", k.renew(ctx, e, revision)
	case e.serves(refused, now):
		return e.Tokens.Access, nil
	}
	return "", wait(ctx)
}

// read returns the entry in the store. If the store lacks it, it returns the first one of the grant, and revision 0.
func (k *Keeper) read(ctx context.Context) (entry, uint64, error) {
	data, revision, err := k.store.Read(ctx, k.grant.ID())
	if err != nil {
		return entry{}, 0, err
	}
	if revision == 0 {
		return entry{Generation: 1, Tokens: k.grant.First}, 0, nil
	}
	e, err := k.grant.open(data)
	return e, revision, err
}

// put stores an entry in place of a revision. If another process was faster, the next step finds out.
func (k *Keeper) put(ctx context.Context, e entry, revision uint64) error {
	_, err := k.write(ctx, e, revision)
	return err
}

func (k *Keeper) write(ctx context.Context, e entry, revision uint64) (stored bool, err error) {
	data, err := k.grant.seal(e)
	if err != nil {
		return false, err
	}
	return k.store.Write(ctx, k.grant.ID(), data, revision)
}

// busy reports whether another process renews.
func (k *Keeper) busy(e entry, revision uint64, now time.Time) bool {
	if e.Holder == "" {
		return false
	}
	if k.held.revision != revision {
		k.held = hold{revision, now}
	}
	return now.Sub(k.held.since) < maxHold
}

// wait waits until it is time to look at the entry again.
func wait(ctx context.Context) error {
	next := time.NewTimer(pollEvery)
	defer next.Stop()
	select {
	case <-next.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// renew takes the entry for this process, renews the tokens and stores them. It goes on when ctx ends: the old refresh
// token is worthless once the authorization server has the request.
func (k *Keeper) renew(ctx context.Context, e entry, revision uint64) error {
	long, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewTime)
	defer cancel()
	e.Holder = rand.Text()
	if stored, err := k.write(long, e, revision); err != nil || !stored {
		return err // not stored: another process was faster, which the next step finds out
	}
	tokens, err := k.grant.refresh(long, k.client, e.Tokens)
	next := entry{Generation: e.Generation + 1, Tokens: tokens, Refused: final(err)}
	if err != nil && next.Refused == "" {
		k.failed, k.retry = err, time.Now().Add(retryAfter)
		next.Generation, next.Tokens = e.Generation, e.Tokens // others may try
		return errors.Join(err, k.settle(ctx, e, next))
	}
	k.newest.Store(&known{next, true})
	return k.settle(ctx, e, next)
}

// settle stores the entry that ends a renewal, in place of mine. If it cannot, the next step does.
func (k *Keeper) settle(ctx context.Context, mine, next entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	now, revision, err := k.read(ctx)
	if err != nil || now.Holder != mine.Holder {
		return err
	}
	return k.put(ctx, next, revision)
}
