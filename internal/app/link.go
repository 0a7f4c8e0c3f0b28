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
	"github.com/seed-018f16cc/toolbus/subjects"
)

// LinkOptions are what [Establish] needs besides [Options]. The zero value is a connection without a token.
type LinkOptions struct {
	Name        string        // that the server shows for the connection; default the name of the program
	Credentials string        // a file with the token of the process, which is renewed there
	SecretsDir  string        // the folder of the deployment's secrets, of dispatchers
	Timeout     time.Duration // for each server to accept the connection; default [bus.DialTime]
	// Tenant and Actor are of the callers on the connection; default those of the token, else [client.DefaultTenant]
	// and [client.DefaultActor], if one of the two is set.
	Tenant, Actor string
}

// Link is a connection to a bus with what runs on it: clients, executors, dispatchers. It keeps its token good, and
// survives the absence of the server. Its methods are safe for concurrent use.
type Link struct {
	NC *nats.Conn
	JS jetstream.JetStream

	options Options

	closing context.Context // ends when Close is called, or with the cause that nobody is let in any more
	close   context.CancelCauseFunc
	mu      sync.Mutex // held while something is added to running
	running sync.WaitGroup
}

// ErrClosed is the error of what is run on a connection that is closed.
var ErrClosed = errors.New("the connection to the bus is closed")

// Establish connects to the bus and waits for a server until ctx ends at the latest. The error is a
// [client.Refusal] if the bus does not accept the token. Close the link when done.
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

// Options returns the options of the connection, with its token.
func (l *Link) Options() Options { return l.options }

// Client returns a client over the connection. Close it when done.
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

// Renew exchanges the token of the connection for a new one now. The error is a [client.Refusal] if
// dispatchers do not renew the token.
func (l *Link) Renew(ctx context.Context) error {
	if l.options.TokenConn == nil {
		return ErrNoCredentials
	}
	return refused(l.options.TokenConn.Renew(ctx))
}

// refused returns err as a [client.Refusal] if dispatchers do not renew a token.
func refused(err error) error {
	if renewal, ok := errors.AsType[*tokensource.RenewalError](err); ok {
		return &client.Refusal{Reason: renewal.Cause.WithEffect(envelope.EffectNone)}
	}
	return err
}

// Close ends what runs on the connection as the end of its context would, waits for it, and closes the connection when
// what was sent has left. Clients must not be used afterwards. Closing it again does nothing.
func (l *Link) Close() {
	l.end(nil)
	l.running.Wait()
	l.NC.Close()
}

// end ends what runs on the connection. With an error it will never be let in again.
func (l *Link) end(err error) {
	l.mu.Lock()
	l.close(cmp.Or(err, ErrClosed))
	l.mu.Unlock()
	if err != nil {
		l.NC.Close()
	}
}

// IsPermissionDenied returns the reason why the server does not accept the connection any more; nil while it does.
func (l *Link) IsPermissionDenied() error {
	if why := context.Cause(l.closing); why != nil && !errors.Is(why, ErrClosed) {
		return why
	}
	return l.options.TokenConn.Refused()
}

// next returns the options of the next process: the first one has the name of the connection.
func (l *Link) next() Options {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.options
	l.options.Instance = ""
	return o
}

// Run runs a dispatcher or an executor on the connection until ctx ends or the connection is closed; that it was told
// to end is no error.
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
