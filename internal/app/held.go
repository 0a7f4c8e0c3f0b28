package app

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bearer"
	"github.com/seed-018f16cc/toolbus/bus"
)

// DialHolding is [Dial] with a token, if there is one. A token that has expired is exchanged first: the connection that
// it gets can do nothing else. It gives up when ctx ends, which the client of NATS knows nothing of.
func DialHolding(ctx context.Context, name string, o Options, held *bearer.Bearer) (*nats.Conn, error) {
	if held != nil {
		o.Connect = append(o.Connect, nats.TokenHandler(held.Token))
	}
	if held != nil && held.Expired() {
		nc, err := dial(ctx, name, o)
		if err != nil {
			return nil, err
		}
		err = renewFirst(ctx, nc, held)
		nc.Close()
		if err != nil {
			return nil, err
		}
	}
	return dial(ctx, name, o)
}

func dial(ctx context.Context, name string, o Options) (*nats.Conn, error) {
	type dialled struct {
		nc  *nats.Conn
		err error
	}
	done := make(chan dialled) // nobody listens once ctx has ended
	go func() {
		nc, err := Dial(name, o)
		select {
		case done <- dialled{nc, err}:
		case <-ctx.Done():
			if nc != nil {
				nc.Close()
			}
		}
	}()
	select {
	case d := <-done:
		if d.err != nil {
			return nil, fmt.Errorf("%w\n%s", d.err, bus.ConnectFix(d.err))
		}
		return d.nc, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func renewFirst(ctx context.Context, nc *nats.Conn, held *bearer.Bearer) error {
	inbox, err := inboxOf(nc, held)
	if err != nil {
		return err
	}
	defer func() { _ = inbox.Close() }() // the connection ends next
	if err := held.Renew(ctx, inbox); err != nil {
		return fmt.Errorf("the credential has expired: %w", err)
	}
	return nil
}

func inboxOf(nc *nats.Conn, held *bearer.Bearer) (*bus.Inbox, error) {
	says := held.Says()
	inbox, err := bus.NewInbox(nc, says.Tenant, says.Actor)
	if err == nil {
		inbox.Token = held.Token
	}
	return inbox, err
}

// Renewing returns what keeps a token good over a connection, until its context ends.
func Renewing(nc *nats.Conn, held *bearer.Bearer) (run func(context.Context), err error) {
	inbox, err := inboxOf(nc, held)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		held.Run(ctx, inbox, func() { _ = nc.ForceReconnect() }) // it is closed otherwise
	}, nil
}
