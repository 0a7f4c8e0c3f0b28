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

// front is the connection over which requests and questions come to a dispatcher, so that whatever senders flood it
// with never stands before acknowledgements, events of the log and what executors say: these come over the other one,
// the back. It leads to the server that the back is connected to, or nowhere: a dispatcher that cannot write must not
// take in what others could.
type front struct {
	nc      *nats.Conn
	back    *nats.Conn
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

// openFront connects as the back is connected; what comes over it is called kind.
func openFront(back *nats.Conn, kind string, log *slog.Logger) (*front, error) {
	f := &front{back: back, web: strings.HasPrefix(back.ConnectedUrl(), "ws"), done: make(chan struct{})}
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
func (f *front) follow() {
	defer close(f.done)
	for range f.changes {
		if !f.back.IsConnected() || f.nc.ConnectedServerId() != f.back.ConnectedServerId() {
			_ = f.nc.ForceReconnect() // it is closed otherwise
		}
	}
}

// close ends it, when what was said over it has left.
func (f *front) close() {
	f.back.RemoveStatusListener(f.changes)
	<-f.done
	_ = f.nc.FlushTimeout(time.Second) // a dead connection has nothing to flush to
	f.nc.Close()
}

func (f *front) sieved(conn net.Conn) net.Conn {
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
func (f *front) serves(in *rpc.CallListener, questions *rpc.Service) {
	f.taker.Store(&taker{
		judge: func(subject []byte, size int) rpc.FilterAction {
			if fate := in.Fate(subject, size); fate != rpc.FilterPass {
				return fate
			}
			return questions.Fate(subject, size)
		},
		take: in.Take,
	})
}

// stores has parts of payloads taken in as they come.
func (f *front) stores(p *rpc.Parts) { f.taker.Store(&taker{judge: p.Fate, take: p.Take}) }

// stats counts what went over it.
func (f *front) stats() nats.Statistics {
	s := f.nc.Stats()
	s.InMsgs += f.taken.Load()
	return s
}

// Dial implements nats.CustomDialer. Wherever the library wants to go, it goes to the server of the back.
func (f *front) Dial(network, _ string) (net.Conn, error) {
	address := f.back.ConnectedAddr()
	if address == "" {
		return nil, errAway
	}
	conn, err := f.dialer.Dial(network, address)
	if err != nil || f.web {
		return conn, err
	}
	return f.sieved(conn), nil
}

// SkipTLSHandshake is asked by the client library when the connection is to be encrypted from here on. It would do that
// above what reads the messages, where they cannot be read: hence it is done below.
func (f *front) SkipTLSHandshake() bool {
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
func (f *front) encryption() (*tls.Config, error) {
	o, config := f.back.Opts, &tls.Config{}
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
	state, err := f.back.TLSConnectionState()
	if config.ServerName = cmp.Or(config.ServerName, state.ServerName); config.ServerName == "" { // it is an address
		config.ServerName, _, _ = net.SplitHostPort(f.back.ConnectedAddr())
	}
	return config, err
}

// inProcess is a server in this process.
type inProcess struct {
	front  *front
	server nats.InProcessConnProvider
}

// InProcessConn implements nats.InProcessConnProvider.
func (p inProcess) InProcessConn() (net.Conn, error) {
	if !p.front.back.IsConnected() {
		return nil, errAway
	}
	conn, err := p.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	return p.front.sieved(conn), nil
}
