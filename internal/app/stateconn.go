package app

import (
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
)

// stateConn is the connection of a dispatcher for what each of its decisions depends on: tokens, locks, the policy,
// runs and heartbeats. No body of a call crosses it. So it does not end, and its answers are not late, when the main
// connection has more to read than it can.
type stateConn struct {
	nc *nats.Conn
	js *bus.SharedJetStream
}

// openStateConn connects with the options of the main connection.
func openStateConn(c *Conn) (*stateConn, error) {
	o, err := siblingOptions(c.NC, "state", c.Watch)
	if err != nil {
		return nil, err
	}
	nc, err := o.Connect()
	if err != nil {
		return nil, fmt.Errorf("connect for state: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	return &stateConn{nc, bus.Shared(js)}, nil
}

func (c *stateConn) close() {
	c.js.Close()
	c.nc.Close()
}

// siblingOptions returns the options of another connection of the process beside main. kind is added to its name, and
// watch, to log its losses, replaces the callbacks of main.
func siblingOptions(main *nats.Conn, kind string, watch []nats.Option) (nats.Options, error) {
	o := main.Opts
	o.Name += " (" + kind + ")"
	o.ClosedCB, o.ReconnectedCB, o.DiscoveredServersCB = nil, nil, nil
	for _, set := range watch {
		if err := set(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}
