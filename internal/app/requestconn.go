package app

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// requestConn is the connection over which requests and questions come to a dispatcher, so that whatever senders flood
// it with never stands before acknowledgements, events of the log and what executors say: these come over the other
// one, the back. It leads to the server that the back is connected to, or nowhere: a dispatcher that cannot write must
// not take in what others could.
type requestConn struct {
	nc      *nats.Conn
	main    *nats.Conn
	web     bool // the server is spoken to by WebSocket, in whose frames no messages are found
	dialer  nats.CustomDialer
	last    *rpc.FilterConn // that was dialled; the client library dials one at a time
	taker   atomic.Pointer[taker]
	taken   atomic.Uint64
	changes chan nats.Status // of the back
	done    chan struct{}
}

// taker takes messages before the client library reads them.
type taker struct {
	judge func(subject []byte, size int) rpc.FilterAction
	take  func(rpc.FilteredMessage)
}

// errAway is why the front waits with connecting.
var errAway = errors.New("the connection of the dispatcher is away")

// openRequestConn connects as the back is connected; what comes over it is called kind.
func openRequestConn(back *nats.Conn, kind string, log *slog.Logger) (*requestConn, error) {
	f := &requestConn{main: back, web: strings.HasPrefix(back.ConnectedUrl(), "ws"), done: make(chan struct{})}
	o := back.Opts
	o.Name += " (" + kind + ")"
	o.ClosedCB, o.ReconnectedCB, o.DiscoveredServersCB = nil, nil, nil
	for _, watched := range bus.LogConnection(log.With("connection", kind)) {
		if err := watched(&o); err != nil {
			return nil, err
		}
	}
	if o.CustomDialer == nil { // the back was not dialed by package bus
		o.CustomDialer = &net.Dialer{Timeout: o.Timeout}
	}
	f.dialer, o.CustomDialer = o.CustomDialer, f
	if o.InProcessServer != nil {
		o.InProcessServer = inProcess{f, o.InProcessServer}
	}
	f.changes = back.StatusChanged(nats.RECONNECTING, nats.CONNECTED)
	var err error
	if f.nc, err = o.Connect(); err != nil {
		back.RemoveStatusListener(f.changes)
		return nil, fmt.Errorf("connect for %s: %w", kind, err)
	}
	go f.follow() // ends with close
	return f, nil
}

// follow goes where the back goes.
func (f *requestConn) follow() {
	defer close(f.done)
	for range f.changes {
		if !f.main.IsConnected() || f.nc.ConnectedServerId() != f.main.ConnectedServerId() {
			_ = f.nc.ForceReconnect() // it is closed otherwise
		}
	}
}

// close ends it, when what was said over it has left.
func (f *requestConn) close() {
	f.main.RemoveStatusListener(f.changes)
	<-f.done
	_ = f.nc.FlushTimeout(time.Second) // a dead connection has nothing to flush to
	f.nc.Close()
}

func (f *requestConn) filtered(conn net.Conn) net.Conn {
	f.last = rpc.NewFilterConn(conn, func(subject []byte, size int) rpc.FilterAction {
		if t := f.taker.Load(); t != nil {
			return t.judge(subject, size)
		}
		return rpc.FilterPass
	}, func(m rpc.FilteredMessage) {
		f.taken.Add(1)
		f.taker.Load().take(m)
	})
	return f.last
}

// serves has requests taken in as they come.
func (f *requestConn) serves(in *rpc.CallListener, questions *rpc.Service) {
	f.taker.Store(&taker{
		judge: func(subject []byte, size int) rpc.FilterAction {
			if fate := in.Filter(subject, size); fate != rpc.FilterPass {
				return fate
			}
			return questions.Filter(subject, size)
		},
		take: in.Take,
	})
}

// stores has parts of payloads taken in as they come.
func (f *requestConn) stores(p *rpc.Parts) { f.taker.Store(&taker{judge: p.Filter, take: p.Take}) }

// stats counts what went over it.
func (f *requestConn) stats() nats.Statistics {
	s := f.nc.Stats()
	s.InMsgs += f.taken.Load()
	return s
}

// Dial implements nats.CustomDialer. Wherever the library wants to go, it goes to the server of the back.
func (f *requestConn) Dial(network, _ string) (net.Conn, error) {
	address := f.main.ConnectedAddr()
	if address == "" {
		return nil, errAway
	}
	conn, err := f.dialer.Dial(network, address)
	if err != nil || f.web {
		return conn, err
	}
	return f.filtered(conn), nil
}

// SkipTLSHandshake is asked by the client library when the connection is to be encrypted from here on. It would do that
// above what reads the messages, where they cannot be read: hence it is done below.
func (f *requestConn) SkipTLSHandshake() bool {
	if own, ok := f.dialer.(interface{ SkipTLSHandshake() bool }); ok && own.SkipTLSHandshake() {
		return true
	}
	if f.web {
		return false
	}
	config, err := f.encryption()
	if err != nil {
		return false // the client library says what is wrong
	}
	f.last.Upgrade(config)
	return true
}

// encryption is that of the back.
func (f *requestConn) encryption() (*tls.Config, error) {
	o, config := f.main.Opts, &tls.Config{}
	if o.TLSConfig != nil {
		config = o.TLSConfig.Clone()
	}
	if o.TLSCertCB != nil {
		certificate, err := o.TLSCertCB()
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	if o.RootCAsCB != nil {
		roots, err := o.RootCAsCB()
		if err != nil {
			return nil, err
		}
		config.RootCAs = roots
	}
	state, err := f.main.TLSConnectionState()
	if config.ServerName = cmp.Or(config.ServerName, state.ServerName); config.ServerName == "" { // it is an address
		config.ServerName, _, _ = net.SplitHostPort(f.main.ConnectedAddr())
	}
	return config, err
}

// inProcess is a server in this process.
type inProcess struct {
	requests *requestConn
	server   nats.InProcessConnProvider
}

// InProcessConn implements nats.InProcessConnProvider.
func (p inProcess) InProcessConn() (net.Conn, error) {
	if !p.requests.main.IsConnected() {
		return nil, errAway
	}
	conn, err := p.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	return p.requests.filtered(conn), nil
}
