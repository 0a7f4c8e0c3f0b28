package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// TokenConn is a connection that authenticates with a token. The NATS server closes it when that token expires. So
// TokenConn reconnects earlier with the renewed token, while no messages are in transit if possible. Its methods are
// safe for concurrent use. Before, Crowded, Dial, OnRefused, Refused and Renews may be called on nil.
type TokenConn struct {
	source  *tokensource.Source
	backoff tokensource.ConnectBackoff
	nc      atomic.Pointer[nats.Conn]
	over    chan error // holds the error after which the client no longer tries to connect
	log     *slog.Logger
	told    atomic.Bool // that it waits for a dispatcher

	mu     sync.Mutex
	ends   time.Time     // expiry of the token that was sent last, by the local clock; zero before a planned reconnect
	left   time.Duration // remaining lifetime of that token when its renewal is due
	at     time.Time     // earliest time of the planned reconnect
	before hooks
	denied hooks
}

// hooks is a set of functions that are called at an event. The zero value is an empty set. It is safe for concurrent
// use.
type hooks struct {
	mu  sync.Mutex
	all map[int]func()
	ids int
}

// add adds a function. It is called at each event until forget is called.
func (h *hooks) add(do func()) (forget func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[int]func(){}
	}
	h.ids++
	id := h.ids
	h.all[id] = do
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.all, id)
	}
}

// call calls the functions in sequence, in no particular order.
func (h *hooks) call() {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.all))
	h.mu.Unlock()
	for _, do := range all {
		do()
	}
}

// Hold reads the token from a file and sets Instance of o if the token is of an executor, otherwise Caller. It also
// sets Token. If file is "", it returns nil and changes nothing.
func Hold(file string, o *Options) (*TokenConn, error) {
	if file == "" {
		return nil, nil
	}
	b, err := tokensource.Read(file, cmp.Or(o.Logger, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	if says := b.Principal(); says.Role == auth.Executor {
		o.Instance = auth.NewInstanceID(says)
	} else {
		o.Caller = subjects.Owner{Tenant: says.Tenant, Actor: says.Actor}
	}
	o.Token = hold(b, o)
	return o.Token, nil
}

// hold adds the options to o with which a connection sends the token.
func hold(b *tokensource.Source, o *Options) *TokenConn {
	if says := b.Principal(); says.Role != auth.Executor {
		o.Inbox = says.Inbox()
	}
	h := &TokenConn{
		source: b, backoff: tokensource.ConnectBackoff{Source: b}, over: make(chan error, 1),
		log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
	}
	o.Connect = append(slices.Clone(o.Connect), nats.TokenHandler(h.present), nats.CustomReconnectDelay(h.pause))
	return h
}

// DialHolding is [TokenConn.Dial] for a connection whose token is not renewed later. b may be nil.
func DialHolding(ctx context.Context, name string, o Options, b *tokensource.Source) (*nats.Conn, error) {
	if b == nil {
		return dial(ctx, name, o, func() {})
	}
	return hold(b, &o).Dial(ctx, name, o)
}

// Dial is [Dial] with the token. If h is nil it dials without a token. An expired token is renewed first, over a
// connection that permits only the renewal. An executor may start before the dispatchers: its Dial waits for one to
// answer. Dial returns when ctx ends.
func (h *TokenConn) Dial(ctx context.Context, name string, o Options) (nc *nats.Conn, err error) {
	if h == nil {
		return dial(ctx, name, o, func() {})
	}
	executor := h.source.Principal().Role == auth.Executor
	if executor {
		name = auth.ConnectionName(o.Instance)
	}
	if h.source.Expired() {
		nc, err := h.dial(ctx, name, o)
		if err == nil {
			err = h.renewFirst(ctx, nc)
			nc.Close()
		}
		if err != nil {
			return nil, err
		}
	}
	nc, err = h.dial(ctx, name, o)
	for executor && errors.Is(err, bus.ErrUnanswered) && ctx.Err() == nil {
		nc, err = h.dial(ctx, name, o)
	}
	if err != nil {
		return nil, err
	}
	h.told.Store(false)
	h.nc.Store(nc)
	return nc, nil
}

// dial is the function dial with other errors: if a dispatcher refused the token, it returns a
// [tokensource.RenewalError]. If the server asked for the token and the time ended, it returns [bus.ErrUnanswered].
func (h *TokenConn) dial(ctx context.Context, name string, o Options) (*nats.Conn, error) {
	nc, err := dial(ctx, name, o, h.tellWaiting)
	if err == nil {
		return nc, nil
	}
	cause, _, _ := strings.Cut(err.Error(), "\n") // the first line; the errors below contain their own hints
	if bus.Denied(err) {
		refused := h.source.Denied()
		refused.Cause = refused.Cause.WithCause(cause)
		return nil, refused
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() && h.sent() {
		err = fmt.Errorf("%w in time (%s)", bus.ErrUnanswered, cause) // not %w: the server can be reached
		return nil, fmt.Errorf("%w\n%s", err, bus.ConnectHint(err))
	}
	return nil, err
}

// tellWaiting logs that the server waits for a dispatcher, if it has the token.
func (h *TokenConn) tellWaiting() {
	if h.sent() && !h.told.Swap(true) {
		h.log.Warn("waiting for a dispatcher", "for", "the server's question about the token")
	}
}

// sent reports whether a server has asked for the token: it sends its greeting before that.
func (h *TokenConn) sent() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.ends.IsZero()
}

func (h *TokenConn) present() string {
	token, ends, left := h.source.Current()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends, h.left = ends, left
	h.at = ends.Add(-left*3/4 + rand.N(left/4+1)) // random, to spread the reconnects of equally old tokens
	return token
}

// pause returns how long nats.go waits before the next attempt to connect.
func (h *TokenConn) pause(int) time.Duration {
	nc := h.nc.Load()
	var last error
	if nc != nil {
		last = nc.LastError()
	}
	was := h.backoff.Crowded()
	pause, err := h.backoff.Pause(errors.Is(last, nats.ErrAuthorization), bus.Crowded(last))
	if h.backoff.Refused() != nil {
		h.denied.call()
	}
	if h.backoff.Crowded() && !was {
		h.log.Warn("the server refuses the connection, which is tried again", "err", bus.ErrCrowded,
			"fix", bus.ConnectHint(bus.ErrCrowded))
	}
	if err != nil {
		pause, err = h.reissue(err)
	}
	if err == nil {
		return pause
	}
	h.giveUp(err)
	return time.Hour // Run returns the error, and its caller closes the connection before that
}

func (h *TokenConn) giveUp(err error) {
	select {
	case h.over <- err:
	default: // over already holds an error
	}
}

// reissue returns no error if the file has another credential than the refused one, with which the client connects.
func (h *TokenConn) reissue(refused error) (pause time.Duration, err error) {
	taken, err := h.source.Reissue()
	if taken {
		h.backoff.Admitted() // of the new token, no attempt was refused
		h.log.Info("another credential is in the file: connecting with that one")
		return 0, nil
	}
	return 0, cmp.Or(err, refused)
}

// fileEvery is how often a client whose token is refused looks for another one in the file.
const fileEvery = time.Second

// followFile looks for another credential in the file while the bus refuses the current one, until ctx ends.
func (h *TokenConn) followFile(ctx context.Context, nc *nats.Conn) {
	refused := make(chan struct{}, 1)
	defer h.denied.add(func() {
		select {
		case refused <- struct{}{}:
		default:
		}
	})()
	for {
		select {
		case <-refused:
		case <-ctx.Done():
			return
		}
		for denied := h.Refused(); denied != nil; denied = h.Refused() {
			_, err := h.reissue(denied)
			if err == nil {
				_ = nc.ForceReconnect() // at once; fails only on a closed connection
				break
			}
			if again, ok := errors.AsType[*tokensource.RenewalError](err); ok && again.Reissued {
				h.giveUp(err)
				return
			}
			if !timer.Sleep(ctx, fileEvery) {
				return
			}
		}
	}
}

// Refused returns a [tokensource.RenewalError] after two or more attempts to connect in a row were refused because of
// the token. It returns nil once the connection is accepted again. It does not wait for the connection.
func (h *TokenConn) Refused() error {
	if h == nil {
		return nil
	}
	return h.backoff.Refused()
}

// Renews reports whether h has a token that can be renewed if it expires.
func (h *TokenConn) Renews() bool { return h != nil && !h.source.Spent() }

// Crowded returns [bus.ErrCrowded] after two or more attempts to connect in a row were refused because a limit of
// connections is reached, which is often temporary. Otherwise it returns nil. It does not wait for the connection.
func (h *TokenConn) Crowded() error {
	if h == nil || !h.backoff.Crowded() {
		return nil
	}
	return bus.ErrCrowded
}

// admitted records each connection that the server accepts, until ctx ends or nc is closed.
func (h *TokenConn) admitted(ctx context.Context, nc *nats.Conn) {
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	for {
		select {
		case _, ok := <-connected:
			if !ok {
				return
			}
			h.backoff.Admitted()
		case <-ctx.Done():
			return
		}
	}
}

// OnRefused registers a function, until forget is called. nats.go calls it while it reconnects, after each attempt for
// which Refused returns an error. The function must not block.
func (h *TokenConn) OnRefused(do func()) (forget func()) {
	if h == nil {
		return func() {}
	}
	return h.denied.add(do)
}

// slowDial is the time that a connection takes before dial calls slow.
const slowDial = time.Second

// dial is [Dial] until ctx ends. It calls slow once if that takes longer than slowDial.
func dial(ctx context.Context, name string, o Options, slow func()) (*nats.Conn, error) {
	type dialled struct {
		nc  *nats.Conn
		err error
	}
	done := make(chan dialled) // not buffered: after ctx has ended, the goroutine closes the connection
	go func() {
		nc, err := Dial(name, o)
		select {
		case done <- dialled{nc, err}:
		case <-ctx.Done():
			if nc != nil {
				nc.Close()
			}
		}
	}()
	late := time.NewTimer(slowDial)
	defer late.Stop()
	for {
		select {
		case d := <-done:
			if d.err != nil {
				return nil, fmt.Errorf("%w\n%s", d.err, bus.ConnectHint(d.err))
			}
			return d.nc, nil
		case <-late.C:
			slow()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (h *TokenConn) renewFirst(ctx context.Context, nc *nats.Conn) error {
	inbox, err := h.inboxOn(nc)
	if err != nil {
		return err
	}
	defer func() { _ = inbox.Close() }() // the caller closes the connection as well
	if err := h.source.Renew(ctx, inbox); err != nil {
		return fmt.Errorf("the credential has expired: %w", err)
	}
	return nil
}

func (h *TokenConn) inboxOn(nc *nats.Conn) (*rpc.Inbox, error) {
	claims := h.source.Principal()
	return rpc.OpenInbox(nc, claims.Tenant, claims.Actor, h.Token)
}

// Run renews the token and the connection until ctx ends. It returns an error when the client no longer tries to
// connect.
func (h *TokenConn) Run(ctx context.Context) error {
	nc := h.nc.Load()
	inbox, err := h.inboxOn(nc)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() { h.source.Run(ctx, inbox, func() { _ = nc.ForceReconnect() }) }) // fails only when closed
	all.Go(func() { h.refresh(ctx, nc) })
	all.Go(func() { h.admitted(ctx, nc) })
	all.Go(func() { h.followFile(ctx, nc) })
	select {
	case <-ctx.Done():
		return nil
	case err := <-h.over:
		return err
	}
}

// Renew exchanges the token now and writes the new one to the file.
func (h *TokenConn) Renew(ctx context.Context) error {
	inbox, err := h.inboxOn(h.nc.Load())
	if err != nil {
		return err
	}
	err = h.source.Renew(ctx, inbox)
	return errors.Join(err, inbox.Close())
}

// Principal returns the content of the current token.
func (h *TokenConn) Principal() auth.Principal { return h.source.Principal() }

// Token returns the current token.
func (h *TokenConn) Token() string { return h.source.Token() }

// Before registers a function that is called before each planned reconnect, until forget is called. The reconnect waits
// for it.
func (h *TokenConn) Before(do func()) (forget func()) {
	if h == nil {
		return func() {}
	}
	return h.before.add(do)
}

// refresh reconnects whenever the token has been renewed since the last connect, until ctx ends.
func (h *TokenConn) refresh(ctx context.Context, nc *nats.Conn) {
	for ctx.Err() == nil {
		h.mu.Lock()
		ends, left, at := h.ends, h.left, h.at
		h.mu.Unlock()
		_, renewed, _ := h.source.Current()
		switch {
		case time.Until(at) > 0:
			timer.Sleep(ctx, time.Until(at))
		case !renewed.After(ends) || time.Until(ends) <= 0: // the renewal is due, or the server has closed the connection
			timer.Sleep(ctx, max(left/20, time.Millisecond))
		default:
			h.reconnect(ctx, nc, ends.Add(-left/4))
		}
	}
}

// reconnect reconnects as soon as no messages are in transit, and at the time late at the latest.
func (h *TokenConn) reconnect(ctx context.Context, nc *nats.Conn, late time.Time) {
	if !quiet(ctx, nc, late) {
		return
	}
	h.mu.Lock()
	h.ends = time.Time{} // refresh waits until present has set it again
	h.mu.Unlock()
	h.before.call()
	_ = nc.ForceReconnect() // fails only on a closed connection
}

// silence is the time without any message after which a connection counts as quiet.
const silence = 50 * time.Millisecond

// quiet waits until no message was sent or received for the time silence, and until late at the latest. It returns
// false if ctx ends before.
func quiet(ctx context.Context, nc *nats.Conn, late time.Time) bool {
	for was := nc.Stats(); timer.Sleep(ctx, silence); {
		is := nc.Stats()
		if is.InMsgs == was.InMsgs && is.OutMsgs == was.OutMsgs || !time.Now().Before(late) {
			return true
		}
		was = is
	}
	return false
}
