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

// Options are common to both processes.
type Options struct {
	URL      string
	Topology bus.TopologyOptions
	KV       kv.LogOptions
	Lease    time.Duration // default bus.DefaultLease; executors take that of the dispatchers
	// PayloadMemory is how many bytes of memory large payloads may take in a dispatcher, and in an executor; 0 is
	// flow.DefaultMemory.
	PayloadMemory int64
	Fsync         bool          // the server syncs every write before it acknowledges it; dispatchers tell executors
	Skew          time.Duration // added to the local clock; for tests
	Logger        *slog.Logger  // nil discards
	Trace         call.Trace
	Connect       []nats.Option
	// Instance names the process; default [NewInstanceID]. The server answers it below that name, or below the one of
	// the caller whose connection it is, if Caller is one.
	Instance string
	Caller   subjects.Owner
	// Inbox is the prefix of the subjects on which the server answers a connection with a token; "" without one.
	Inbox string

	// TokenConn is the connection of a process that has a token; nil of one that has none.
	TokenConn *TokenConn

	// Keys are those of the deployment, which dispatchers have: with them the process is a user of the server's file,
	// and says who new connections are. Without, whoever reaches the server may do everything, or what it says itself.
	Keys *deployment.Keys
}

// Conn is a connection to a bus, with what a process has on it. [RunDispatcher] and [RunExecutor] open what they need.
type Conn struct {
	Options
	NC       *nats.Conn
	JS       jetstream.JetStream // for [ack.Publish]
	Log      *kv.Log
	Clock    *bus.Clock
	nonces   atomic.Uint64
	notices  format.Notices
	control  *rpc.Control
	tokens   bool                        // there is identity: permissions go by tokens
	acked    *bus.AckingJetStream        // JS
	requests atomic.Pointer[requestConn] // of a dispatcher
	bulk     atomic.Pointer[requestConn] // of a dispatcher, for parts of payloads
}

// Connect is [Dial] and [Open].
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

// Dial connects under a name that the server shows, and logs what becomes of the connection.
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

// NewInstanceID returns a name that no other process has.
func NewInstanceID() string { return uuid.NewString()[:13] }

// Open prepares for a process on a connection. Nothing is asked of the bus yet.
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

// local is the clock of this host.
func (c *Conn) local() time.Time { return time.Now().Add(c.Skew) }

// OpenPayloads binds to the payload store. Callers only store in it: they read large outputs through dispatchers.
func OpenPayloads(js jetstream.JetStream) *streaming.Payloads {
	return payloadsOf(streaming.NewStore(js, subjects.PayloadsStream))
}

func payloadsOf(store *streaming.Store) *streaming.Payloads {
	return streaming.NewPayloads(store, envelope.MaxPayload)
}

// NewNonce returns a nonce that no other writer ever uses.
func (c *Conn) NewNonce() string {
	var room [64]byte
	return string(strconv.AppendUint(append(append(room[:0], c.Instance...), '.'), c.nonces.Add(1), 36))
}

// Stats counts what went over all connections of the process to the server.
func (c *Conn) Stats() nats.Statistics {
	all := c.NC.Stats()
	for _, front := range []*requestConn{c.requests.Load(), c.bulk.Load()} {
		if front == nil {
			continue
		}
		more := front.stats()
		all.InMsgs, all.OutMsgs = all.InMsgs+more.InMsgs, all.OutMsgs+more.OutMsgs
		all.InBytes, all.OutBytes = all.InBytes+more.InBytes, all.OutBytes+more.OutBytes
	}
	return all
}

// Release ends what Open has made, after what was published has left. The connection stays open.
func (c *Conn) Release() {
	_ = c.NC.FlushTimeout(time.Second) // best effort: a dead connection has nothing to flush to
	c.acked.Close()
}

// Close is Release, and ends the connection.
func (c *Conn) Close() {
	c.Release()
	c.NC.Close()
}

// clockInterval is how often the bus clock is measured again.
const clockInterval = 30 * time.Second
