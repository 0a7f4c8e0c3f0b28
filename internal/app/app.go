package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
	"github.com/seed-018f16cc/toolbus/kv"
)

// Options are common to dispatchers and executors.
type Options struct {
	link.Options
	Topology bus.TopologyOptions
	KV       kv.LogOptions
	Lease    time.Duration // default bus.DefaultLease; executors use the lease of the dispatchers
	// PayloadMemory is the limit of memory for large payloads in bytes, for a dispatcher and for an executor; 0 means
	// flow.DefaultMemory.
	PayloadMemory int64
	Fsync         bool          // the server syncs every write before the ack; executors learn it from dispatchers
	Skew          time.Duration // added to the local clock; for tests
	Trace         call.Trace
	Meter         *telemetry.Meter // of the numbers of the deployment; nil shows none
	// Keys are the secrets of the deployment; only dispatchers have them. With Keys the process connects as a user of the
	// server configuration and answers the auth callout. If nil, the dispatcher starts no auth callout.
	Keys *deployment.Keys
}

// Keyed returns the options of a connection as the user of the server configuration that Keys are for. Without Keys
// they are those of o.
func (o Options) Keyed() (link.Options, error) {
	if o.Keys == nil {
		return o.Options, nil
	}
	user, err := byKey(o.Keys.Dispatcher)
	keyed := o.Options
	keyed.Connect = append(slices.Clone(o.Connect), user)
	return keyed, err
}

// Conn is a connection of a process to a bus. Its methods are safe for concurrent use.
type Conn struct {
	Options
	NC      *nats.Conn
	JS      jetstream.JetStream // for [bus.Publish]
	nonces  atomic.Uint64
	notices format.Notices
	control *rpc.Control
	acked   *bus.SharedJetStream // the same as JS
}

// Connect connects to the NATS server with a connection name, and opens a Conn.
func Connect(name string, o Options) (*Conn, error) {
	o.Instance = cmp.Or(o.Instance, link.NewInstanceID())
	o.Options = o.Options.Watched()
	keyed, err := o.Keyed()
	if err != nil {
		return nil, err
	}
	nc, err := link.Dial(name, keyed)
	if err != nil {
		return nil, err
	}
	c, err := Open(nc, o)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// Run runs a dispatcher or an executor on a link, with the other options in o, as [link.Link.Run] does.
func Run(ctx context.Context, l *link.Link, o Options, process func(context.Context, *Conn) error) error {
	return l.Run(ctx, func(ctx context.Context, of link.Options) error {
		o.Options = of
		c, err := Open(l.NC, o)
		if err != nil {
			return err
		}
		defer c.Release()
		return process(ctx, c)
	})
}

// Open returns a Conn for a process on a connection. It sends nothing to the server.
func Open(nc *nats.Conn, o Options) (*Conn, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	o.Instance = cmp.Or(o.Instance, link.NewInstanceID())
	o.Options = o.Options.Watched()
	if o.Keys != nil {
		o.Instance = keyed + o.Instance
	}
	acked := bus.Shared(js)
	return &Conn{
		Options: o, NC: nc, JS: acked, acked: acked,
		control: &rpc.Control{NC: nc, Log: o.Logger},
	}, nil
}

// local returns the time of the local clock, shifted by Skew.
func (c *Conn) local() time.Time { return time.Now().Add(c.Skew) }

// NewNonce returns a nonce that no other writer uses: the instance name and a counter.
func (c *Conn) NewNonce() string {
	var room [64]byte
	return string(strconv.AppendUint(append(append(room[:0], c.Instance...), '.'), c.nonces.Add(1), 36))
}

// Release waits until the server has received all published messages, for 1 s at most, and frees what Open has made.
// The connection stays open.
func (c *Conn) Release() {
	_ = c.NC.FlushTimeout(time.Second) // if the connection is down, the messages are lost
	c.acked.Close()
}

// Close calls Release and closes the connection.
func (c *Conn) Close() {
	c.Release()
	c.NC.Close()
}

// clockInterval is the time between two measurements of the bus clock.
const clockInterval = 30 * time.Second
