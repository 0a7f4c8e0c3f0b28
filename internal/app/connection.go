package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
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

// TokenConn is a connection that a token lets in, which is kept good: the server ends it when the token expires with
// which it was made. So it is made anew before, at a quiet moment, with the one that was renewed meanwhile. Its
// methods are safe for concurrent use; those of nil do nothing.
type TokenConn struct {
	source  *tokensource.Source
	backoff tokensource.ConnectBackoff
	nc      atomic.Pointer[nats.Conn]
	over    chan error // why nobody is let in any more
	log     *slog.Logger

	mu     sync.Mutex
	ends   time.Time     // of the token that was shown, by the clock of this process
	left   time.Duration // of its life, when it is renewed
	at     time.Time     // when the connection is made anew, if the token was renewed
	before hooks
	denied hooks
}

// hooks are functions to be called at an event. The zero value has none. It is safe for concurrent use.
type hooks struct {
	mu  sync.Mutex
	all map[int]func()
	ids int
}

// add adds a function until forget is called.
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

// call calls the functions one after the other.
func (h *hooks) call() {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.all))
	h.mu.Unlock()
	for _, do := range all {
		do()
	}
}

// Hold reads the token of a file, and lets o be of whoever it says: an executor of an instance of its own, or a caller.
// Without a file it returns nil.
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
	o.TokenConn = hold(b, o)
	return o.TokenConn, nil
}

// hold makes a connection with these options show the token.
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

// DialHolding is [TokenConn.Dial] for a connection that nobody keeps good; b may be nil.
func DialHolding(ctx context.Context, name string, o Options, b *tokensource.Source) (*nats.Conn, error) {
	if b == nil {
		return dial(ctx, name, o)
	}
	return hold(b, &o).Dial(ctx, name, o)
}

// Dial is [Dial] with the token, if there is one. One that has expired is exchanged first: the connection that it gets
// can do nothing else. Dial gives up when ctx ends, which the client of NATS knows nothing of.
func (h *TokenConn) Dial(ctx context.Context, name string, o Options) (nc *nats.Conn, err error) {
	if h == nil {
		return dial(ctx, name, o)
	}
	if h.source.Principal().Role == auth.Executor {
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
	if nc, err = h.dial(ctx, name, o); err != nil {
		return nil, err
	}
	h.nc.Store(nc)
	return nc, nil
}

// dial is the function of that name. A connection that a dispatcher refused fails with an error of type
// [tokensource.RenewalError].
func (h *TokenConn) dial(ctx context.Context, name string, o Options) (*nats.Conn, error) {
	nc, err := dial(ctx, name, o)
	if bus.Denied(err) {
		refused := h.source.Denied()
		cause, _, _ := strings.Cut(err.Error(), "\n") // what to do about it is said by the refusal
		refused.Cause = refused.Cause.WithCause(cause)
		return nil, refused
	}
	return nc, err
}

func (h *TokenConn) present() string {
	token, ends, left := h.source.Current()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends, h.left = ends, left
	h.at = ends.Add(-left*3/4 + rand.N(left/4+1)) // others of the same age do so at another moment
	return token
}

// pause says how long the client of NATS waits before it tries again to connect.
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
	if err == nil {
		return pause
	}
	select {
	case h.over <- err:
	default: // it was said
	}
	return time.Hour // the connection is closed meanwhile
}

// Refused returns the reason why the server refuses the connection, an error of type [tokensource.RenewalError]; nil
// while it is connected, or was not refused twice in a row. It does not wait for the connection.
func (h *TokenConn) Refused() error {
	if h == nil {
		return nil
	}
	return h.backoff.Refused()
}

// Renews reports whether the token is renewed if it has expired.
func (h *TokenConn) Renews() bool { return h != nil && !h.source.Spent() }

// Crowded returns [bus.ErrCrowded] while the server refuses the connection for a bound of connections, which may pass;
// else nil. It does not wait for the connection.
func (h *TokenConn) Crowded() error {
	if h == nil || !h.backoff.Crowded() {
		return nil
	}
	return bus.ErrCrowded
}

// admitted notes each connection that the server accepts, until ctx ends or the connection is closed for good.
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

// OnRefused has a function called, in a goroutine of the connection, each time that Refused has become an error, until
// forget is called. The function must not wait.
func (h *TokenConn) OnRefused(do func()) (forget func()) {
	if h == nil {
		return func() {}
	}
	return h.denied.add(do)
}

func dial(ctx context.Context, name string, o Options) (*nats.Conn, error) {
	type dialled struct {
		nc  *nats.Conn
		err error
	}
	done := make(chan dialled) // nobody listens once ctx has ended
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
	select {
	case d := <-done:
		if d.err != nil {
			return nil, fmt.Errorf("%w\n%s", d.err, bus.ConnectHint(d.err))
		}
		return d.nc, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *TokenConn) renewFirst(ctx context.Context, nc *nats.Conn) error {
	inbox, err := h.inboxOn(nc)
	if err != nil {
		return err
	}
	defer func() { _ = inbox.Close() }() // the connection ends next
	if err := h.source.Renew(ctx, inbox); err != nil {
		return fmt.Errorf("the credential has expired: %w", err)
	}
	return nil
}

func (h *TokenConn) inboxOn(nc *nats.Conn) (*rpc.Inbox, error) {
	says := h.source.Principal()
	inbox, err := rpc.NewInbox(nc, says.Tenant, says.Actor, says.Below()...)
	if err == nil {
		inbox.Token = h.Token
	}
	return inbox, err
}

// Run keeps token and connection good until ctx ends. It returns an error if nobody is let in any more.
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
	all.Go(func() { h.source.Run(ctx, inbox, func() { _ = nc.ForceReconnect() }) }) // it is closed otherwise
	all.Go(func() { h.refresh(ctx, nc) })
	all.Go(func() { h.admitted(ctx, nc) })
	select {
	case <-ctx.Done():
		return nil
	case err := <-h.over:
		return err
	}
}

// Renew exchanges the token now, and replaces its file.
func (h *TokenConn) Renew(ctx context.Context) error {
	inbox, err := h.inboxOn(h.nc.Load())
	if err != nil {
		return err
	}
	err = h.source.Renew(ctx, inbox)
	return errors.Join(err, inbox.Close())
}

// Token returns the token as it is now.
func (h *TokenConn) Token() string { return h.source.Token() }

// Before has something done before the connection is made anew, until forget is called. It may take a moment.
func (h *TokenConn) Before(do func()) (forget func()) {
	if h == nil {
		return func() {}
	}
	return h.before.add(do)
}

// refresh makes the connection anew when the token was renewed with which it was made.
func (h *TokenConn) refresh(ctx context.Context, nc *nats.Conn) {
	for ctx.Err() == nil {
		h.mu.Lock()
		ends, left, at := h.ends, h.left, h.at
		h.mu.Unlock()
		_, renewed, _ := h.source.Current()
		switch {
		case time.Until(at) > 0:
			timer.Sleep(ctx, time.Until(at))
		case !renewed.After(ends) || time.Until(ends) <= 0: // it will be; or the server has ended the connection
			timer.Sleep(ctx, max(left/20, time.Millisecond))
		default:
			h.reconnect(ctx, nc, ends.Add(-left/4))
		}
	}
}

// reconnect makes the connection anew, at a quiet moment before late, or then.
func (h *TokenConn) reconnect(ctx context.Context, nc *nats.Conn, late time.Time) {
	if !quiet(ctx, nc, late) {
		return
	}
	h.mu.Lock()
	h.ends = time.Time{} // until it is shown again
	h.mu.Unlock()
	h.before.call()
	_ = nc.ForceReconnect() // it is closed otherwise
}

// silence is for how long nothing comes or goes at a quiet moment.
const silence = 50 * time.Millisecond

// quiet waits for a quiet moment, until late. It returns false when ctx ends.
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
