package toolbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// DefaultURL is where `toolbus dev` listens, and where callers look unless they are told otherwise.
const DefaultURL = "nats://127.0.0.1:4280"

// Options say how to be on a bus. The zero value is good for a client, and for a bus of one server.
type Options struct {
	Name   string        // that the server shows for the connection; default the name of the program
	Logger *slog.Logger  // what happens to the connection, and what executors and dispatchers log; nil discards
	NATS   []nats.Option // such as credentials and TLS; they win over those that a bus needs
	// Tenant and Actor are of the callers on the connection, which the server answers below their names: permissions may
	// let it hear nothing else. Default is a name of its own.
	Tenant, Actor string
	// Instance is that name, and the one of the first executor or dispatcher on the connection; default a random one.
	Instance string
	// Credentials is a file with the token of whoever connects, see `toolbus credentials`: it says who calls, and is
	// renewed, and replaced, as long as the connection lives.
	Credentials string
	// Keys is the folder of the deployment's secrets, of dispatchers: see `toolbus keys init`. Without it whoever reaches
	// the server may do everything.
	Keys string
	// Timeout is how long each server may take to accept the connection; default 5 s.
	Timeout time.Duration

	// Of executors and dispatchers; they must be the same for all of a bus.
	Fsync      bool          // the server syncs every write: SideEffectful tools may be called
	Replicas   int           // servers that hold each stream; default 1, and 3 in a cluster of three
	Partitions int           // of the call log, fixed when it is made; default what there is, else 1
	Retention  Retention     // of the record; what is left out stays as it is
	Lease      time.Duration // that an executor may be silent before its work is taken over; from 100 ms on, default 5 s
	Group      int           // with Fsync: how many events must wait at once to be written together; default 16

	// PayloadMemory is how many bytes of memory large inputs may take at once in an executor, and in a dispatcher;
	// default 128 MiB. Calls wait for it, and one whose input needs more than there is altogether is refused.
	PayloadMemory int64

	Observer call.Trace    // is told what executors and dispatchers do with calls, step by step
	Skew     time.Duration // added to the local clock, to see that it does no harm
}

// Retention says how long the record is kept, by age and by bytes, and with AuditFull "refuse" that calls are refused
// when there is no more room for theirs.
type Retention = bus.Retention

// Conn is a connection to a bus, from which clients, executors and dispatchers are made. It survives the absence of
// the server. Its methods are safe for concurrent use.
type Conn struct {
	NC *nats.Conn          // for what this package has no function for
	JS jetstream.JetStream // the same

	options app.Options

	closing context.Context // ends when Close is called, or with the cause that nobody is let in any more
	close   context.CancelCauseFunc
	mu      sync.Mutex // held while something is added to running
	running sync.WaitGroup
}

// Connect connects to the bus at url, one or more with commas between them; "" is [DefaultURL].
// A server that is not there, or is too old, is an error that says what to do; it is waited for until ctx
// ends at the latest. Credentials that the bus does not accept are a [Refusal], of the code A-AUTH-EXPIRED if they have
// expired for good and else A-AUTH-REVOKED. Close the connection when done.
func Connect(ctx context.Context, url string, o Options) (*Conn, error) {
	url = cmp.Or(url, DefaultURL)
	if o.Lease != 0 && o.Lease < bus.MinLease {
		return nil, fmt.Errorf("a lease of %s is too short: it is %s or more", o.Lease, bus.MinLease)
	}
	if err := o.Retention.Check(); err != nil {
		return nil, err
	}
	options := app.Options{
		URL: url, Fsync: o.Fsync, Lease: o.Lease, KV: kv.LogOptions{Group: o.Group}, Skew: o.Skew,
		Logger: o.Logger, Observer: o.Observer, PayloadMemory: o.PayloadMemory,
		Connect:  append([]nats.Option{nats.Timeout(cmp.Or(o.Timeout, bus.DialTime))}, o.NATS...),
		Topology: bus.TopologyOptions{Replicas: o.Replicas, Partitions: o.Partitions, Retention: o.Retention},
	}
	options.Instance = cmp.Or(o.Instance, app.NewInstanceID())
	held, err := app.Hold(o.Credentials, &options)
	if err != nil {
		return nil, err
	}
	if o.Tenant != "" || o.Actor != "" {
		of := cmp.Or(options.Caller, subjects.Owner{Tenant: DefaultTenant, Actor: DefaultActor})
		options.Caller = subjects.Owner{Tenant: cmp.Or(o.Tenant, of.Tenant), Actor: cmp.Or(o.Actor, of.Actor)}
	}
	if o.Keys != "" {
		if options.Keys, err = deployment.Load(o.Keys); err != nil {
			return nil, err
		}
	}
	nc, err := held.Dial(ctx, cmp.Or(o.Name, filepath.Base(os.Args[0])), options)
	if refused, ok := errors.AsType[*tokensource.RenewalError](err); ok {
		return nil, &Refusal{refused.Refusal.WithEffect(envelope.EffectNone)}
	}
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	c := &Conn{NC: nc, JS: js, options: options}
	c.closing, c.close = context.WithCancelCause(context.WithoutCancel(ctx))
	if options.Held != nil {
		c.running.Go(func() { c.end(held.Run(c.closing)) })
	}
	return c, nil
}

// Client returns a client that calls tools. Close it when done.
func (c *Conn) Client(o ClientOptions) (*Client, error) {
	o.Payloads = app.OpenPayloads(c.JS)
	o.Tenant, o.Actor = cmp.Or(o.Tenant, c.options.Caller.Tenant), cmp.Or(o.Actor, c.options.Caller.Actor)
	own := o.Token == nil && c.options.Held != nil
	if own {
		o.Token = c.options.Held.Token
	}
	client, err := NewClient(c.NC, o)
	if err == nil && own {
		client.renews = c.options.Held.Renews
	}
	if err == nil {
		client.barred, client.onRefused, client.crowded = c.barred, c.options.Held.OnRefused, c.options.Held.Crowded
		client.forget = client.onRefused(client.watch.Release)
	}
	return client, err
}

// Renew exchanges the token of the connection's credentials for a new one now, and replaces the file; an expired token
// of a credential that may still be renewed was exchanged by [Connect]. It is an error if the connection has no
// credentials, and a [Refusal] if dispatchers do not renew the token. What runs on the connection goes on with the new
// token. A connection renews its token by itself in time, so a program that keeps one needs no Renew.
func (c *Conn) Renew(ctx context.Context) error {
	if c.options.Held == nil {
		return errors.New("the connection has no credentials to renew")
	}
	err := c.options.Held.Renew(ctx)
	if refused, ok := errors.AsType[*tokensource.RenewalError](err); ok {
		return &Refusal{refused.Refusal}
	}
	return err
}

// Close ends what runs on the connection as the end of its context would, waits for it, and closes the connection when
// what was sent has left. Clients must not be used afterwards. Closing it again does nothing.
func (c *Conn) Close() {
	c.end(nil)
	c.running.Wait()
	c.NC.Close()
}

// end ends what runs on the connection. With an error it will never be let in again.
func (c *Conn) end(err error) {
	c.mu.Lock()
	c.close(cmp.Or(err, ErrClosed))
	c.mu.Unlock()
	if err != nil {
		c.NC.Close()
	}
}

// barred returns the reason why the server does not accept the connection any more; nil while it does.
func (c *Conn) barred() error {
	if why := context.Cause(c.closing); why != nil && !errors.Is(why, ErrClosed) {
		return why
	}
	return c.options.Held.Refused()
}

// ErrClosed is what is run on a connection that is closed.
var ErrClosed = errors.New("the connection to the bus is closed")

// next returns the options of the next part: the first one has the name of the connection.
func (c *Conn) next() app.Options {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.options
	c.options.Instance = ""
	return o
}

// run runs a part of the bus on the connection until ctx ends or the connection is closed; that it was told to end is
// no error.
func (c *Conn) run(ctx context.Context, part func(context.Context, *app.Conn) error) error {
	c.mu.Lock()
	if c.closing.Err() != nil {
		c.mu.Unlock()
		return context.Cause(c.closing)
	}
	c.running.Add(1)
	c.mu.Unlock()
	defer c.running.Done()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(c.closing, stop)()
	opened, err := app.Open(c.NC, c.next())
	if err == nil {
		err = part(ctx, opened)
		opened.Release()
	}
	if barred := c.barred(); barred != nil {
		return barred
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}
