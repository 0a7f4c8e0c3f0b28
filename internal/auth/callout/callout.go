package callout

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// Check verifies a token and returns its principal. It returns the principal also with [auth.ErrExpired]. See
// [auth.Verifier.Verify].
type Check func(token string, now time.Time) (*auth.Principal, error)

// Options configure a [Callout].
type Options struct {
	Keys   *deployment.Keys
	Check  Check
	Inputs func(auth.Principal) auth.PermissionInputs // inputs of the permissions; may be nil
	Now    func() time.Time
	Note   func(auth.Principal) // is called with the principal of each accepted connection; may be nil
	// Admit returns an error to refuse the connection cid of a server, with a token of p, to an account. See
	// [Connections.Admit]. If it is nil, no connection is refused.
	Admit   func(p auth.Principal, account, server string, cid uint64) error
	Refused func()       // is called for each connection that is refused; may be nil
	Logger  *slog.Logger // logs why a connection was refused; the client does not learn it
}

// Callout answers the auth callout requests of NATS servers: it verifies the token of each new connection, and returns
// its user, account and permissions. Several may run at the same time, in several processes, over connections to the
// account AUTH. They form a queue group, so each request goes to one of them.
type Callout struct {
	Options
	sub     *nats.Subscription
	workers *flow.WorkerPool[*nats.Msg]

	mu         sync.Mutex
	complaints flow.Bucket
	left       int // complaints since the last one that was logged
}

const (
	calloutSubject  = "$SYS.REQ.USER.AUTH"
	calloutQueue    = "callout"
	calloutAudience = "nats-authorization-request"
	serverKeyHeader = "Nats-Server-Xkey"

	// maxCallouts limits the requests that are handled at the same time. The server waits 2 s for an answer.
	maxCallouts = 256
	// maxRequest is the largest accepted request in bytes, far more than one with a token and a chain of certificates.
	maxRequest = 64 << 10
	// logAtOnce and logPerSecond limit how many refused connections are logged: a burst, and a rate per second.
	logAtOnce    = 100
	logPerSecond = 10
	// renewTime is how long the server keeps a connection that may only renew its expired token.
	renewTime = time.Minute
)

// Serve answers auth callout requests over nc until Stop. It returns an error if it cannot subscribe within 5 s.
func Serve(nc *nats.Conn, o Options) (*Callout, error) {
	c := &Callout{Options: o, complaints: flow.Bucket{Rate: logPerSecond, Burst: logAtOnce}}
	c.workers = flow.NewBoundedWorkerPool(maxCallouts, c.serve)
	sub, err := nc.QueueSubscribe(calloutSubject, calloutQueue, func(msg *nats.Msg) { c.workers.Start(msg) })
	if err == nil {
		err = nc.FlushTimeout(5 * time.Second)
	}
	if err != nil {
		return nil, fmt.Errorf("callout: %w", err)
	}
	c.sub = sub
	return c, nil
}

// Stop ends the subscription and waits for the requests that are being handled.
func (c *Callout) Stop() {
	closed := c.sub.StatusChanged(nats.SubscriptionClosed)
	if c.sub.Drain() == nil { // otherwise the connection is closed, and the subscription with it
		select {
		case <-closed:
		case <-time.After(time.Second):
		}
	}
	c.workers.Wait()
}

func (c *Callout) serve(msg *nats.Msg) {
	answer, err := c.answer(msg.Data, msg.Header.Get(serverKeyHeader))
	if err != nil {
		c.Logger.Warn("a question about a connection was not answered", "err", err)
		return
	}
	if err := msg.Respond(answer); err != nil {
		c.Logger.Warn("a connection was not answered", "err", err)
	}
}

// answer returns the encrypted answer to an auth callout request. With an error there is no answer: the request is not
// from a server of this deployment, or the verifier is not ready.
func (c *Callout) answer(data []byte, server string) (sealed []byte, err error) {
	defer func() {
		if p := recover(); p != nil { // a request must not end the process
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	r, err := c.open(data, server)
	if err != nil {
		return nil, err
	}
	a := jwt.NewAuthorizationResponseClaims(r.UserNkey)
	a.Audience = r.Server.ID
	if a.Jwt, err = c.admit(r); errors.Is(err, auth.ErrNotReady) {
		return nil, err // the server refuses the client when its wait ends, and the client tries again
	}
	if err != nil {
		if c.Refused != nil {
			c.Refused()
		}
		c.complain("a connection was refused", "err", err, "host", r.ClientInformation.Host,
			"connection", fmt.Sprintf("%.100q", r.ConnectOptions.Name))
		if a.Jwt, a.Error = "", "refused"; errors.Is(err, errFull) {
			a.Error = ""
			if a.Jwt, err = c.full(r); err != nil {
				return nil, err
			}
		}
	}
	text, err := a.Encode(c.Keys.Issuer)
	if err != nil {
		return nil, err
	}
	return c.Keys.XKey.Seal([]byte(text), server)
}

// errFull means that a connection with a valid token was refused, because its credential or its account has too many
// connections, or because the credential flooded a server.
var errFull = errors.New("no room")

// full returns a user of the account FULL, which allows no connections. So the server tells the client that its account
// has too many connections, and not only that it is not authorized.
func (c *Callout) full(r *jwt.AuthorizationRequestClaims) (string, error) {
	u := jwt.NewUserClaims(r.UserNkey)
	u.Audience, u.Expires = auth.Full, c.Now().Add(renewTime).Unix()
	u.Permissions.Pub.Deny.Add(">") // in case the limit of the account was raised
	u.Permissions.Sub.Deny.Add(">")
	return u.Encode(c.Keys.Issuer)
}

// complain logs a warning, unless more than logPerSecond were logged lately. The next logged one counts those left out.
func (c *Callout) complain(what string, about ...any) {
	c.mu.Lock()
	logged, left := c.complaints.Take(c.Now()), c.left
	if c.left++; logged {
		c.left = 0
	}
	c.mu.Unlock()
	if logged && left > 0 {
		about = append(about, "not_logged_before", left)
	}
	if logged {
		c.Logger.Warn(what, about...)
	}
}

// open decrypts and decodes a request. A request that is not encrypted is not from a server of this deployment.
func (c *Callout) open(data []byte, server string) (*jwt.AuthorizationRequestClaims, error) {
	if len(data) > maxRequest || !nkeys.IsValidPublicCurveKey(server) {
		return nil, errors.New("it is not encrypted, or too large")
	}
	text, err := c.Keys.XKey.Open(data, server)
	if err != nil {
		return nil, err
	}
	r, err := jwt.DecodeAuthorizationRequestClaims(string(text))
	if err != nil {
		return nil, err
	}
	if r.Audience != calloutAudience || r.Issuer != r.Server.ID || r.Server.XKey != server ||
		!nkeys.IsValidPublicUserKey(r.UserNkey) {
		return nil, errors.New("it is no question about a connection")
	}
	return r, nil
}

// admit verifies the token of a connection and returns the signed user claims: name, account, expiry and permissions.
func (c *Callout) admit(r *jwt.AuthorizationRequestClaims) (string, error) {
	token := cmp.Or(r.ConnectOptions.Token, r.ConnectOptions.Password)
	if token == "" {
		return "", errors.New("it has shown no token")
	}
	now := c.Now()
	p, err := c.Check(token, now)
	expired := errors.Is(err, auth.ErrExpired) && now.Before(p.RenewUntil)
	if err != nil && !expired {
		return "", err
	}
	until := p.Expires
	if expired {
		until = now.Add(renewTime)
	}
	f := auth.PermissionInputs{}
	if c.Inputs != nil {
		f = c.Inputs(*p)
	}
	f.Expired = expired
	if p.Role == auth.Executor && !expired {
		var ok bool
		if f.Instance, ok = auth.Instance(*p, r.ConnectOptions.Name); !ok {
			return "", fmt.Errorf("an executor of %s must not be that instance", p.User())
		}
	}
	account := auth.Account(*p, f)
	if c.Admit != nil {
		if err := c.Admit(*p, account, r.Server.ID, r.ClientInformation.ID); err != nil {
			return "", fmt.Errorf("%w: %w", errFull, err)
		}
	}
	if c.Note != nil {
		c.Note(*p)
	}
	u := jwt.NewUserClaims(r.UserNkey)
	u.Name, u.Audience, u.Expires = p.User(), account, until.Unix()
	u.Permissions = auth.Permissions(*p, f)
	u.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeStandard, jwt.ConnectionTypeInProcess}
	return u.Encode(c.Keys.Issuer)
}
