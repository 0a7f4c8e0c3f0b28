package app

import (
	"cmp"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Options are common to dispatchers and executors.
type Options struct {
	URL      string
	Topology bus.TopologyOptions
	KV       kv.LogOptions
	Lease    time.Duration // default bus.DefaultLease; executors use the lease of the dispatchers
	// PayloadMemory is the limit of memory for large payloads in bytes, for a dispatcher and for an executor; 0 means
	// flow.DefaultMemory.
	PayloadMemory int64
	Fsync         bool          // the server syncs every write before the ack; executors learn it from dispatchers
	Skew          time.Duration // added to the local clock; for tests
	Logger        *slog.Logger  // nil discards all messages
	Trace         call.Trace
	Connect       []nats.Option
	// Instance is the name of the process; default [NewInstanceID]. The NATS server sends replies to an inbox below that
	// name, or below Caller if that is set.
	Instance string
	Caller   subjects.Owner
	// Inbox is the prefix of the reply subjects of a connection with a token; "" if that follows from Instance or Caller.
	Inbox string

	// TokenConn is the connection of a process that has a token; nil without a token.
	TokenConn *TokenConn

	// Keys are the secrets of the deployment; only dispatchers have them. With Keys the process connects as a user of the
	// server configuration and answers the auth callout. If nil, the dispatcher starts no auth callout.
	Keys *deployment.Keys
}

// Conn is a connection of a process to a bus. Its methods are safe for concurrent use.
type Conn struct {
	Options
	NC      *nats.Conn
	JS      jetstream.JetStream // for [bus.Publish]
	nonces  atomic.Uint64
	notices format.Notices
	control *rpc.Control
	acked   *bus.AckingJetStream // the same as JS
}

// Connect calls [Dial] and [Open].
func Connect(name string, o Options) (*Conn, error) {
	o.Instance = cmp.Or(o.Instance, NewInstanceID())
	nc, err := Dial(name, o)
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

// Dial connects to the NATS server with a connection name, and logs changes of the connection status.
func Dial(name string, o Options) (*nats.Conn, error) {
	log := cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	inbox := subjects.InboxOf(cmp.Or(o.Instance, NewInstanceID()))
	if o.Caller != (subjects.Owner{}) {
		inbox = o.Caller.Inbox()
	}
	inbox = cmp.Or(o.Inbox, inbox)
	connect := append(append(bus.LogConnection(log), nats.CustomInboxPrefix(inbox)), o.Connect...)
	if o.Keys != nil {
		user, err := byKey(o.Keys.Dispatcher)
		if err != nil {
			return nil, err
		}
		connect = append(connect, user)
	}
	return bus.Dial(o.URL, name, connect...)
}

// NewInstanceID returns a random name for a process.
func NewInstanceID() string { return uuid.NewString()[:13] }

// Open returns a Conn for a process on a connection. It sends nothing to the server.
func Open(nc *nats.Conn, o Options) (*Conn, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	o.Instance = cmp.Or(o.Instance, NewInstanceID())
	if o.Keys != nil {
		o.Instance = keyed + o.Instance
	}
	acked := bus.WithSharedAcks(js)
	return &Conn{
		Options: o, NC: nc, JS: acked, acked: acked,
		control: &rpc.Control{NC: nc, Log: o.Logger},
	}, nil
}

// local returns the time of the local clock, shifted by Skew.
func (c *Conn) local() time.Time { return time.Now().Add(c.Skew) }

// OpenPayloads returns the payload store for a caller. A caller only writes to it, and reads large outputs through
// dispatchers.
func OpenPayloads(js jetstream.JetStream) *streaming.Payloads {
	return payloadsOf(streaming.NewStore(js, subjects.PayloadsStream))
}

func payloadsOf(store *streaming.Store) *streaming.Payloads {
	return streaming.NewPayloads(store, envelope.MaxPayload)
}

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
