package toolbus

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/caller"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
	"github.com/seed-018f16cc/toolbus/kv"
)

// DefaultURL is the address on which `toolbus dev` listens, and the default of [Connect].
const DefaultURL = caller.DefaultURL

// Options configures a connection and the executors and dispatchers on it. The zero value suits a client, and a bus
// with one NATS server.
type Options struct {
	Name   string        // connection name that the NATS server shows; default: base name of os.Args[0]
	Logger *slog.Logger  // logs events of the connection, of executors and of dispatchers; nil discards
	NATS   []nats.Option // further options of the connection; they override those of Toolbus
	// Tenant and Actor are the default identity of clients on the connection. The connection receives answers only on
	// subjects below these names, so that server permissions can restrict it to them. Default: those of the token; without
	// a token, the connection receives answers below a name of its own.
	Tenant, Actor string
	// Instance is the name of the connection, and of the first executor or dispatcher on it. Default: a random name.
	Instance string
	// CredentialsFile is the file with the token of the process, which names its tenant and actor; see
	// `toolbus credentials`. The connection renews the token in time and replaces the file.
	CredentialsFile string
	// SecretsDir is the folder of secrets that `toolbus keys init` writes. Only dispatchers need it. A dispatcher without
	// it does not start, unless DispatcherOptions.InsecureNoAuth is set.
	SecretsDir string
	// Timeout is the time within which each server must accept the connection; default 5 s.
	Timeout time.Duration
	// Topology is for executors and dispatchers. It must be the same for all of them on a bus.
	Topology Topology
	// PayloadMemory is the memory, in bytes, that large inputs may take at once in an executor, and in a dispatcher;
	// default 128 MiB. Calls wait for free memory. A call whose input needs more than all of it is refused.
	PayloadMemory int64
	// TracerProvider creates the traces of executors and dispatchers; nil creates none.
	TracerProvider trace.TracerProvider
	// MeterProvider has the metrics of executors and dispatchers, which docs/metrics.md lists; nil has none.
	MeterProvider metric.MeterProvider
	// LogSample is the share of successful calls that Logger gets an event of, above 0 and below 1; default all. Errors
	// are always logged. docs/metrics.md lists the fields.
	LogSample float64
	Skew      time.Duration // added to the local clock; for tests of clock skew
}

// Topology configures how a bus stores calls. The zero value suits a bus with one server that syncs at intervals.
type Topology struct {
	SyncAlways bool      // the server has sync_interval: always; tools of class [SideEffectful] require it
	Replicas   int       // servers that hold each stream; default 1; use 3 in a cluster of three servers
	Partitions int       // streams of the call log, which cannot change later; default: as it exists, else 1
	Batch      int       // with SyncAlways: number of waiting events that are written as one batch; default 16
	Retention  Retention // of the audit log
	// Lease is the time that an executor may be silent before others take over its work; at least 100 ms, default 5 s.
	Lease time.Duration
}

// FullPolicy is the reaction to a full audit log: [DropOldest] or [RefuseCalls].
type FullPolicy string

// Values of [FullPolicy]. The empty value keeps the policy of the bus, which is DropOldest for a new one.
const (
	DropOldest  FullPolicy = "forget" // delete the oldest records
	RefuseCalls FullPolicy = "refuse" // refuse calls with R-CAP-AUDIT until records expire or the limit is raised
)

// Retention limits the age and the size of the audit log. A zero field leaves the limit as it is; on a new bus the
// limits are 30 days, 4 GiB and, for refusals, 512 MiB.
type Retention struct {
	AuditAge, DeniedAge     time.Duration // maximum age of records, and of records of refusals; at least 1 minute
	AuditBytes, DeniedBytes int64         // maximum size of the same, in bytes; at least 1 MiB
	WhenFull                FullPolicy    // applies to AuditBytes; the oldest refusals are always deleted
}

// Conn is a connection to a bus. Make clients, executors and dispatchers from it. It reconnects after a loss of the
// server, without limit. Its methods are safe for concurrent use.
type Conn struct {
	link    *link.Link
	process app.Options // of executors and dispatchers, but for those of the connection
}

// ErrClosed is the error of executors and dispatchers on a [Conn] that is closed.
var ErrClosed = link.ErrClosed

// Connect connects to the bus at url, one or more URLs separated by commas; "" is [DefaultURL]. It waits for a server
// until ctx ends. The error says what to do if no server answered, or if the server is too old. If the bus does not
// accept the credentials, the error is an [Error] with the code A-AUTH-EXPIRED if they have expired and cannot be
// renewed, and otherwise A-AUTH-REVOKED. Close the connection when done.
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
	var meter *telemetry.Meter
	if o.MeterProvider != nil {
		var err error
		meter, err = telemetry.NewMeter(o.MeterProvider, o.Logger)
		if err != nil {
			return nil, err
		}
		traced = meter.Trace(traced)
	}
	if o.Logger != nil {
		traced = telemetry.NewLog(o.Logger, o.LogSample).Trace(traced)
	}
	process := app.Options{
		Topology: bus.TopologyOptions{Replicas: t.Replicas, Partitions: t.Partitions, Retention: retention},
		KV:       kv.LogOptions{Group: t.Batch}, Lease: t.Lease, PayloadMemory: o.PayloadMemory, Fsync: t.SyncAlways,
		Skew: o.Skew, Trace: traced, Meter: meter,
		Options: link.Options{
			URL: cmp.Or(url, DefaultURL), Name: o.Name, Logger: o.Logger, Connect: o.NATS, Instance: o.Instance,
			Credentials: o.CredentialsFile, Timeout: o.Timeout, Tenant: o.Tenant, Actor: o.Actor,
		},
	}
	if o.SecretsDir != "" {
		var err error
		if process.Keys, err = deployment.Load(o.SecretsDir); err != nil {
			return nil, err
		}
	}
	keyed, err := process.Keyed()
	if err != nil {
		return nil, err
	}
	l, err := link.Establish(ctx, keyed)
	if err != nil {
		return nil, caller.ErrorOf(err)
	}
	return &Conn{l, process}, nil
}

// stored returns r as a value of package bus.
func (r Retention) stored() bus.Retention {
	return bus.Retention{
		AuditAge: r.AuditAge, DeniedAge: r.DeniedAge, AuditBytes: r.AuditBytes, DeniedBytes: r.DeniedBytes,
		AuditFull: bus.FullPolicy(r.WhenFull),
	}
}

// NATS returns the underlying connection to the NATS server. Do not close it.
func (c *Conn) NATS() *nats.Conn { return c.link.NC }

// Client returns a client that calls tools over the connection. The error is not nil if the tenant or the actor is not
// a valid name. Close the client when done.
func (c *Conn) Client(o ClientOptions) (*Client, error) {
	return caller.New(c.link, o)
}

// Renew renews the token of the connection now, and replaces the credentials file. Clients, executors and dispatchers
// on the connection use the new token. Renew returns an error if the connection has no credentials, and an [Error] if
// dispatchers refuse to renew the token. An open connection renews its token by itself before it expires, and [Connect]
// renews an expired one if that is allowed, so most programs do not need Renew.
func (c *Conn) Renew(ctx context.Context) error { return caller.ErrorOf(c.link.Renew(ctx)) }

// Close stops the executors and dispatchers on the connection as the end of their contexts would, waits until their Run
// has returned, and closes the connection. Clients must not be used afterwards. Further calls do nothing.
func (c *Conn) Close() { c.link.Close() }
