package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// LinkOptions are the options of [Establish] in addition to [Options]. With the zero value the connection has no token.
type LinkOptions struct {
	Name        string        // connection name that the NATS server shows; default: base name of os.Args[0]
	Credentials string        // file with the token of the process; renewed tokens are written to it
	SecretsDir  string        // folder of the deployment's secrets; only for dispatchers
	Timeout     time.Duration // to connect to each server; default [bus.DialTime]
	// Tenant and Actor apply to callers on the connection; default: those of the token. If only one of them is set and
	// there is no token, the other is [client.DefaultTenant] or [client.DefaultActor].
	Tenant, Actor string
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
func Establish(ctx context.Context, o Options, of LinkOptions) (*Link, error) {
	o.Connect = append([]nats.Option{nats.Timeout(cmp.Or(of.Timeout, bus.DialTime))}, o.Connect...)
	o.Instance = cmp.Or(o.Instance, NewInstanceID())
	held, err := Hold(of.Credentials, &o)
	if err != nil {
		return nil, err
	}
	if of.Tenant != "" || of.Actor != "" {
		c := cmp.Or(o.Caller, subjects.Owner{Tenant: client.DefaultTenant, Actor: client.DefaultActor})
		o.Caller = subjects.Owner{Tenant: cmp.Or(of.Tenant, c.Tenant), Actor: cmp.Or(of.Actor, c.Actor)}
	}
	if of.SecretsDir != "" {
		if o.Keys, err = deployment.Load(of.SecretsDir); err != nil {
			return nil, err
		}
	}
	nc, err := held.Dial(ctx, cmp.Or(of.Name, filepath.Base(os.Args[0])), o)
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
	held := l.options.TokenConn
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
	if l.options.TokenConn == nil {
		return ErrNoCredentials
	}
	return refused(l.options.TokenConn.Renew(ctx))
}

// refused returns a [operation.Refusal] if err is a [tokensource.RenewalError]. Otherwise it returns err.
func refused(err error) error {
	if renewal, ok := errors.AsType[*tokensource.RenewalError](err); ok {
		return &operation.Refusal{Reason: renewal.Cause.WithEffect(envelope.EffectNone)}
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
	return l.options.TokenConn.Refused()
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

// Run runs a dispatcher or an executor on the connection until ctx ends or the link is closed. It returns nil if the
// process failed only because it was stopped.
func (l *Link) Run(ctx context.Context, process func(context.Context, *Conn) error) error {
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
	opened, err := Open(l.NC, l.next())
	if err == nil {
		err = process(ctx, opened)
		opened.Release()
	}
	if barred := l.IsPermissionDenied(); barred != nil {
		return barred
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}
