package app

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
)

// Guest is a connection to a bus that others serve, with JetStream access: what callers need for
// large payloads, auditors for the record and operators for everything.
type Guest struct {
	NC *nats.Conn
	JS jetstream.JetStream
}

// Visit connects to the bus at url under a name that the server shows.
func Visit(url, name string) (*Guest, error) { return VisitWithin(bus.DialTime, url, name) }

// VisitWithin is Visit, and gives up a server that has not accepted the connection within a time of one's own.
func VisitWithin(within time.Duration, url, name string) (*Guest, error) {
	nc, err := bus.Dial(url, name, nats.Timeout(within))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	return &Guest{NC: nc, JS: js}, nil
}

// Client returns a client on this connection, with access to the payload store.
func (g *Guest) Client(o bus.ClientOptions) (*bus.Client, error) {
	o.Payloads = OpenPayloads(g.JS)
	return bus.NewClient(g.NC, o)
}

// Close ends the connection.
func (g *Guest) Close() { g.NC.Close() }
