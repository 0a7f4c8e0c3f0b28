package app

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// requestConn is another connection of a dispatcher, for requests or for parts of payloads. A flood on it does not
// delay acknowledgements, events of the call log and messages of executors, which use the main connection. It connects
// to the same server as the main connection, and only while that is connected: a dispatcher that cannot write must not
// take requests that others could answer.
type requestConn struct {
	nc      *nats.Conn
	main    *nats.Conn
	web     bool // the server is connected by WebSocket, whose frames the filter cannot read
	dialer  nats.CustomDialer
	last    *rpc.FilterConn // made by the last dial; nats.go dials one connection at a time
	taker   atomic.Pointer[taker]
	taken   atomic.Uint64
	changes chan nats.Status // status changes of the main connection
	done    chan struct{}
}

// taker decides about messages, and takes some, before nats.go reads them.
type taker struct {
	judge func(subject []byte, size int) rpc.FilterAction
	take  func(rpc.FilteredMessage)
}

// errAway is the error of Dial while the main connection is down.
var errAway = errors.New("the connection of the dispatcher is away")

// openRequestConn connects to the server of back with its options. kind is added to the connection name, and watch logs
// losses.
func openRequestConn(back *nats.Conn, kind string, watch []nats.Option) (*requestConn, error) {
	f := &requestConn{main: back, web: strings.HasPrefix(back.ConnectedUrl(), "ws"), done: make(chan struct{})}
	o, err := siblingOptions(back, kind, watch)
	if err != nil {
		return nil, err
	}
	if o.CustomDialer == nil { // back was not dialed by package bus
		o.CustomDialer = &net.Dialer{Timeout: o.Timeout}
	}
	f.dialer, o.CustomDialer = o.CustomDialer, f
	if o.InProcessServer != nil {
		o.InProcessServer = inProcess{f, o.InProcessServer}
	}
	f.changes = back.StatusChanged(nats.RECONNECTING, nats.CONNECTED)
	if f.nc, err = o.Connect(); err != nil {
		back.RemoveStatusListener(f.changes)
		return nil, fmt.Errorf("connect for %s: %w", kind, err)
	}
	go f.follow() // ends with close
	return f, nil
}

// follow reconnects f whenever the main connection is down or connected to another server.
func (f *requestConn) follow() {
	defer close(f.done)
	for range f.changes {
		if !f.main.IsConnected() || f.nc.ConnectedServerId() != f.main.ConnectedServerId() {
			_ = f.nc.ForceReconnect() // fails only on a closed connection
		}
	}
}

// close flushes the connection, for 1 s at most, and closes it.
func (f *requestConn) close() {
	f.main.RemoveStatusListener(f.changes)
	<-f.done
	_ = f.nc.FlushTimeout(time.Second) // fails if the connection is down
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

// serves lets in and questions take their messages from the filter.
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

// stores lets p take parts of payloads from the filter.
func (f *requestConn) stores(p *rpc.Parts) { f.taker.Store(&taker{judge: p.Filter, take: p.Take}) }

// stats returns the statistics of the connection, with the messages that the filter took.
func (f *requestConn) stats() nats.Statistics {
	s := f.nc.Stats()
	s.InMsgs += f.taken.Load()
	return s
}

// Dial implements nats.CustomDialer. It ignores the address and dials the server of the main connection.
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

// SkipTLSHandshake is called by nats.go when TLS must start. nats.go would add TLS above the filter, which could then
// not read the messages. So this method adds TLS below the filter and returns true.
func (f *requestConn) SkipTLSHandshake() bool {
	if own, ok := f.dialer.(interface{ SkipTLSHandshake() bool }); ok && own.SkipTLSHandshake() {
		return true
	}
	if f.web {
		return false
	}
	config, err := f.encryption()
	if err != nil {
		return false // nats.go then does the handshake and reports the error
	}
	f.last.Upgrade(config)
	return true
}

// encryption returns the TLS configuration of the main connection.
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
	if config.ServerName = cmp.Or(config.ServerName, state.ServerName); config.ServerName == "" { // an IP address
		config.ServerName, _, _ = net.SplitHostPort(f.main.ConnectedAddr())
	}
	return config, err
}

// inProcess connects to a NATS server in this process.
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
