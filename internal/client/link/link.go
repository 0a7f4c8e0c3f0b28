package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Options configures a connection to a bus. URL is required.
type Options struct {
	URL         string       // one or more URLs separated by commas
	Name        string       // connection name that the NATS server shows; default: base name of os.Args[0]
	Logger      *slog.Logger // nil discards all messages
	Connect     []nats.Option
	Credentials string        // file with the token of the process; renewed tokens are written to it; "" is no token
	Timeout     time.Duration // to connect to each server; default [bus.DialTime]
	// Tenant and Actor apply to callers on the connection; default: those of the token. If only one of them is set and
	// there is no token, the other is [client.DefaultTenant] or [client.DefaultActor].
	Tenant, Actor string
	// Instance is the name of the process; default [NewInstanceID]. The NATS server sends replies to an inbox below that
	// name, or below Caller if that is set.
	Instance string
	Caller   subjects.Owner
	// Inbox is the prefix of the reply subjects of a connection with a token; "" if that follows from Instance or Caller.
	Inbox string
	// Token is the connection of a process that has a token; nil without a token. [Hold] sets it.
	Token *TokenConn
	// Watch logs losses of the connections of a process: see [bus.LogConnection]. [Options.Watched] sets it.
	Watch []nats.Option
}

// Watched returns o with Watch, which all connections of a process share.
func (o Options) Watched() Options {
	if o.Watch == nil {
		o.Watch = bus.LogConnection(cmp.Or(o.Logger, slog.New(slog.DiscardHandler)))
	}
	return o
}

// Link is a connection to a bus with the clients, executors and dispatchers that use it. It renews its token and
// reconnects. Its methods are safe for concurrent use.
type Link struct {
	NC *nats.Conn
	JS jetstream.JetStream

	options Options

	closing context.Context // ends at Close, or when the token is refused for good; its cause says which
	close   context.CancelCauseFunc
	mu      sync.Mutex // held while running is increased
	running sync.WaitGroup
}

// ErrClosed is the error of [Link.Run] on a closed link.
var ErrClosed = errors.New("the connection to the bus is closed")

// Establish connects to the bus. It waits for a server until ctx ends. The error is a [operation.Refusal] if the bus
// does not accept the token. The caller must call [Link.Close].
func Establish(ctx context.Context, o Options) (*Link, error) {
	o.Connect = append([]nats.Option{nats.Timeout(cmp.Or(o.Timeout, bus.DialTime))}, o.Connect...)
	o.Instance = cmp.Or(o.Instance, NewInstanceID())
	o = o.Watched()
	held, err := Hold(o.Credentials, &o)
	if err != nil {
		return nil, err
	}
	if o.Tenant != "" || o.Actor != "" {
		c := cmp.Or(o.Caller, subjects.Owner{Tenant: client.DefaultTenant, Actor: client.DefaultActor})
		o.Caller = subjects.Owner{Tenant: cmp.Or(o.Tenant, c.Tenant), Actor: cmp.Or(o.Actor, c.Actor)}
	}
	nc, err := held.Dial(ctx, cmp.Or(o.Name, filepath.Base(os.Args[0])), o)
	if err != nil {
		return nil, refused(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	l := &Link{NC: nc, JS: js, options: o}
	l.closing, l.close = context.WithCancelCause(context.WithoutCancel(ctx))
	if held != nil {
		l.running.Go(func() { l.end(held.Run(l.closing)) })
	}
	return l, nil
}

// Options returns the options of the connection. Hold has set the token in them, if there is one.
func (l *Link) Options() Options { return l.options }

// Client returns a client that uses the connection. The caller must close it.
func (l *Link) Client(o client.Options) (*client.Client, error) {
	o.Payloads = OpenPayloads(l.JS)
	o.Tenant, o.Actor = cmp.Or(o.Tenant, l.options.Caller.Tenant), cmp.Or(o.Actor, l.options.Caller.Actor)
	held := l.options.Token
	o.Hooks = client.Hooks{IsPermissionDenied: l.IsPermissionDenied, OnRefused: held.OnRefused, Crowded: held.Crowded}
	if o.Token == nil && held != nil {
		o.Token, o.Renews = held.Token, held.Renews
	}
	return client.New(l.NC, o)
}

// ErrNoCredentials is the error of [Link.Renew] on a connection without a token.
var ErrNoCredentials = errors.New("the connection has no credentials to renew")

// Renew exchanges the token of the connection for a new one now. The error is a [operation.Refusal] if dispatchers
// refuse the renewal for good.
func (l *Link) Renew(ctx context.Context) error {
	if l.options.Token == nil {
		return ErrNoCredentials
	}
	return refused(l.options.Token.Renew(ctx))
}

// refused returns a [operation.Refusal] if err is a [tokensource.RenewalError]. Otherwise it returns err.
func refused(err error) error {
	if renewal, ok := errors.AsType[*tokensource.RenewalError](err); ok {
		return &operation.Refusal{Reason: renewal.Cause.WithEffect(envelope.EffectNone), Dialed: true}
	}
	return err
}

// Close stops the processes on the connection as the end of their context would, waits for them, and closes the
// connection. Clients must not be used afterwards. A second Close does nothing.
func (l *Link) Close() {
	l.end(nil)
	l.running.Wait()
	l.NC.Close()
}

// end stops the processes on the connection. A non-nil err means that the server will not accept the connection again:
// end then closes it.
func (l *Link) end(err error) {
	l.mu.Lock()
	l.close(cmp.Or(err, ErrClosed))
	l.mu.Unlock()
	if err != nil {
		l.NC.Close()
	}
}

// IsPermissionDenied returns the reason why the server no longer accepts the connection, or nil.
func (l *Link) IsPermissionDenied() error {
	if why := context.Cause(l.closing); why != nil && !errors.Is(why, ErrClosed) {
		return why
	}
	return l.options.Token.Refused()
}

// next returns the options of the next process. The first process has the instance name of the connection, each later
// one a new name.
func (l *Link) next() Options {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.options
	l.options.Instance = ""
	return o
}

// Run runs a process on the connection until ctx ends or the link is closed. process gets the options of the
// connection, with an instance name of its own. Run returns nil if the process failed only because it was stopped.
func (l *Link) Run(ctx context.Context, process func(context.Context, Options) error) error {
	l.mu.Lock()
	if l.closing.Err() != nil {
		l.mu.Unlock()
		return context.Cause(l.closing)
	}
	l.running.Add(1)
	l.mu.Unlock()
	defer l.running.Done()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(l.closing, stop)()
	err := process(ctx, l.next())
	if barred := l.IsPermissionDenied(); barred != nil {
		return barred
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

// Dial connects to the NATS server with a connection name, and logs changes of the connection status.
func Dial(name string, o Options) (*nats.Conn, error) {
	inbox := subjects.InboxOf(cmp.Or(o.Instance, NewInstanceID()))
	if o.Caller != (subjects.Owner{}) {
		inbox = o.Caller.Inbox()
	}
	inbox = cmp.Or(o.Inbox, inbox)
	more := append([]nats.Option{nats.CustomInboxPrefix(inbox)}, o.Connect...)
	return bus.Dial(o.URL, name, slices.Concat(o.Watched().Watch, more)...)
}

// IsLost reports whether err means that a message was not sent because its connection is lost. [Options.Watched] logs
// the loss.
func IsLost(err error) bool { return errors.Is(err, nats.ErrReconnectBufExceeded) }

// NewInstanceID returns a random name for a process.
func NewInstanceID() string { return uuid.NewString()[:13] }

// OpenPayloads returns the payload store for a caller. A caller only writes to it, and reads large outputs through
// dispatchers.
func OpenPayloads(js jetstream.JetStream) *streaming.Payloads {
	return streaming.NewPayloads(streaming.NewStore(js, subjects.PayloadsStream), envelope.MaxPayload)
}
