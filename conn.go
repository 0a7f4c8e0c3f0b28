package toolbus

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/app"
)

// Options tune a connection. The zero value is good.
type Options struct {
	Name    string        // that the server shows; default "toolbus"
	Timeout time.Duration // for each server to accept the connection; default 5 s
	NATS    []nats.Option // credentials, TLS and what else the server wants
}

// Conn is a connection to a bus. Its methods are safe for concurrent use.
type Conn struct {
	NC *nats.Conn
	JS jetstream.JetStream
}

// Connect connects to the bus at url, one or more URLs of NATS servers with commas between them. It gives up when ctx
// ends. Once made, the connection is made anew for as long as it takes whenever it is lost.
func Connect(ctx context.Context, url string, o Options) (*Conn, error) {
	type made struct {
		conn *Conn
		err  error
	}
	done := make(chan made, 1)
	go func() { // ends when the server has answered or the timeout has passed
		c, err := connect(url, o)
		done <- made{c, err}
	}()
	select {
	case m := <-done:
		return m.conn, m.err
	case <-ctx.Done():
		go func() { // as above; nobody waits for a server that says nothing
			if m := <-done; m.conn != nil {
				m.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

func connect(url string, o Options) (*Conn, error) {
	nc, err := bus.Dial(url, cmp.Or(o.Name, "toolbus"), append([]nats.Option{nats.Timeout(cmp.Or(o.Timeout, bus.DialTime))}, o.NATS...)...)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	return &Conn{NC: nc, JS: js}, nil
}

// Client returns a client on this connection, with access to the payload store.
func (c *Conn) Client(o ClientOptions) (*Client, error) {
	o.Payloads = app.OpenPayloads(c.JS)
	return NewClient(c.NC, o)
}

// Close ends the connection.
func (c *Conn) Close() { c.NC.Close() }
