package toolbus

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
	"github.com/seed-018f16cc/toolbus/kv"
)

// DefaultURL is where `toolbus dev` listens, and where callers look unless they are told otherwise.
const DefaultURL = "nats://127.0.0.1:4280"

// Options say how to connect to a bus. The zero value is good for a client, and for a bus of one server.
type Options struct {
	Name   string        // that the server shows for the connection; default the name of the program
	Logger *slog.Logger  // what happens to the connection, and what executors and dispatchers log; nil discards
	NATS   []nats.Option // such as credentials and TLS; they win over those that a bus needs
	// Tenant and Actor are of the callers on the connection, which the server answers below their names: permissions
	// may let it hear nothing else. Default is a name of its own.
	Tenant, Actor string
	// Instance is that name, and the one of the first executor or dispatcher on the connection; default a random one.
	Instance string
	// CredentialsFile has the token of the process, see `toolbus credentials`: it says who calls, and is
	// renewed, and replaced, as long as the connection lives.
	CredentialsFile string
	// SecretsDir is the folder of the deployment's secrets, of dispatchers: see `toolbus keys init`. Without it whoever
	// reaches the server may do everything.
	SecretsDir string
	// Timeout is how long each server may take to accept the connection; default 5 s.
	Timeout time.Duration
	// Topology is for executors and dispatchers; it must be the same for all of a bus.
	Topology Topology
	// PayloadMemory is how many bytes of memory large inputs may take at once in an executor, and in a dispatcher;
	// default 128 MiB. Calls wait for it, and one whose input needs more than there is altogether is refused.
	PayloadMemory int64
	// TracerProvider makes the traces of executors and dispatchers; nil makes none.
	TracerProvider trace.TracerProvider
	Skew           time.Duration // added to the local clock, to see that it does no harm
}

// Topology says how a bus stores calls. The zero value is a bus of one server that syncs at intervals.
type Topology struct {
	SyncAlways bool      // the server syncs every write: tools of the class [SideEffectful] may be called
	Replicas   int       // servers that hold each stream; default 1, and 3 in a cluster of three
	Partitions int       // of the call log, fixed when it is made; default what there is, else 1
	Batch      int       // with SyncAlways: how many events must wait at once to be written together; default 16
	Retention  Retention // of the audit log; what is left out stays as it is
	// Lease is how long an executor may be silent before its work is taken over; from 100 ms on, default 5 s.
	Lease time.Duration
}

// FullPolicy says what happens when the audit log has no more room.
type FullPolicy string

// The two policies. What is left out is [DropOldest].
const (
	DropOldest  FullPolicy = "forget" // the oldest records go
	RefuseCalls FullPolicy = "refuse" // calls are refused with R-CAP-AUDIT until there is room
)

// Retention says how long the audit log is kept, by age and by bytes. A zero value leaves the limit as it is.
type Retention struct {
	AuditAge, DeniedAge     time.Duration // of records, and of those of refusals; at least a minute
	AuditBytes, DeniedBytes int64
	WhenFull                FullPolicy
}

// Conn is a connection to a bus, from which clients, executors and dispatchers are made. It survives the absence of
// the server. Its methods are safe for concurrent use.
type Conn struct{ link *app.Link }

// ErrClosed is the error of a connection, or a client, that is closed.
var ErrClosed = app.ErrClosed

// Connect connects to the bus at url, one or more with commas between them; "" is [DefaultURL].
// A server that is not there, or is too old, is an error that says what to do; it is waited for until ctx
// ends at the latest. Credentials that the bus does not accept are an [Error] with the code A-AUTH-EXPIRED if they have
// expired for good, and else A-AUTH-REVOKED. Close the connection when done.
func Connect(ctx context.Context, url string, o Options) (*Conn, error) {
	t := o.Topology
	if t.Lease != 0 && t.Lease < bus.MinLease {
		return nil, fmt.Errorf("a lease of %s is too short: it is %s or more", t.Lease, bus.MinLease)
	}
	retention := t.Retention.stored()
	if err := retention.Check(); err != nil {
		return nil, err
	}
	var traced call.Trace
	if o.TracerProvider != nil {
		traced = telemetry.Of(o.TracerProvider).Trace()
	}
	link, err := app.Establish(ctx, app.Options{
		URL: cmp.Or(url, DefaultURL), Fsync: t.SyncAlways, Lease: t.Lease, KV: kv.LogOptions{Group: t.Batch},
		Skew: o.Skew, Logger: o.Logger, Trace: traced, PayloadMemory: o.PayloadMemory, Connect: o.NATS,
		Instance: o.Instance,
		Topology: bus.TopologyOptions{Replicas: t.Replicas, Partitions: t.Partitions, Retention: retention},
	}, app.LinkOptions{
		Name: o.Name, Credentials: o.CredentialsFile, SecretsDir: o.SecretsDir, Timeout: o.Timeout,
		Tenant: o.Tenant, Actor: o.Actor,
	})
	if err != nil {
		return nil, ofBus(err)
	}
	return &Conn{link}, nil
}

// stored returns the limits as the topology has them.
func (r Retention) stored() bus.Retention {
	return bus.Retention{
		AuditAge: r.AuditAge, DeniedAge: r.DeniedAge, AuditBytes: r.AuditBytes, DeniedBytes: r.DeniedBytes,
		AuditFull: bus.FullPolicy(r.WhenFull),
	}
}

// NATS returns the connection to the server, for what this package has no function for.
func (c *Conn) NATS() *nats.Conn { return c.link.NC }

// Client returns a client that calls tools. Close it when done.
func (c *Conn) Client(o ClientOptions) (*Client, error) {
	own, err := c.link.Client(client.Options{
		Tenant: o.Tenant, Actor: o.Actor, Env: o.Env, Timezone: o.Timezone, Scopes: o.Scopes, Token: o.Token,
		StableKeys: o.StableKeys, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Client{own}, nil
}

// Renew exchanges the token of the connection's credentials for a new one now, and replaces the file; an expired token
// of a credential that may still be renewed was exchanged by [Connect]. It is an error if the connection has no
// credentials, and an [Error] if dispatchers do not renew the token. What runs on the connection goes on with the new
// token. A connection renews its token by itself in time, so a program that keeps one needs no Renew.
func (c *Conn) Renew(ctx context.Context) error { return ofBus(c.link.Renew(ctx)) }

// Close ends what runs on the connection as the end of its context would, waits for it, and closes the connection when
// what was sent has left. Clients must not be used afterwards. Closing it again does nothing.
func (c *Conn) Close() { c.link.Close() }
