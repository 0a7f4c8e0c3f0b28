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

// Check makes an identity of a token. Of one that has expired it returns what it said, too, with an error of
// [auth.ErrExpired].
type Check func(token string, now time.Time) (*auth.Principal, error)

// Options are what answers about new connections depend on.
type Options struct {
	Keys   *deployment.Keys
	Check  Check
	Inputs func(auth.Principal) auth.PermissionInputs // what permissions depend on beside token and connection; may be nil
	Now    func() time.Time
	Note   func(auth.Principal) // gets the principal of each connection that is let in; may be nil
	// Admit refuses a connection with a token of a principal to an account, by an error; see [Connections.Admit]. Nil
	// refuses none.
	Admit  func(p auth.Principal, account, server string, cid uint64) error
	Logger *slog.Logger // is told why somebody was turned away, which whoever it was is not
}

// Callout answers the server's questions who a new connection is. Any number may run side by side, over connections to
// the account AUTH: when one is lost, the others answer.
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

	// maxCallouts bounds the questions in hand. The server waits two seconds for an answer.
	maxCallouts = 256
	// maxRequest is far above a question with a token and a chain of certificates.
	maxRequest = 64 << 10
	// logAtOnce and logPerSecond bound how many refused connections are logged.
	logAtOnce    = 100
	logPerSecond = 10
	// renewTime is how long a connection lives that may only exchange its token.
	renewTime = time.Minute
)

// Serve answers until Stop.
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

// Stop takes no more questions, which others answer, and waits for those in hand.
func (c *Callout) Stop() {
	closed := c.sub.StatusChanged(nats.SubscriptionClosed)
	if c.sub.Drain() == nil { // it is gone with the connection otherwise
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

// answer returns the answer to a server's question about a connection, or an error if no server asks.
func (c *Callout) answer(data []byte, server string) (sealed []byte, err error) {
	defer func() {
		if p := recover(); p != nil { // a question must not end the process
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

// errFull means that a connection was refused for a bound of connections, or for a flood. The token is good.
var errFull = errors.New("no room")

// full returns a user of the account FULL, which takes no connections. A client that dispatchers refuse reads only that
// it is not authorized. A client whose account is full reads that.
func (c *Callout) full(r *jwt.AuthorizationRequestClaims) (string, error) {
	u := jwt.NewUserClaims(r.UserNkey)
	u.Audience, u.Expires = auth.Full, c.Now().Add(renewTime).Unix()
	u.Permissions.Pub.Deny.Add(">") // in case the account was given room
	u.Permissions.Sub.Deny.Add(">")
	return u.Encode(c.Keys.Issuer)
}

// complain logs a warning, unless there were too many lately.
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

// open decrypts and decodes a question. One that is not encrypted did not come from a server of this deployment.
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

// admit returns the server's word for who the connection is, with all that it may do.
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
