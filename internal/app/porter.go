package app

import (
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-018f16cc/toolbus/accounts"
	"github.com/seed-018f16cc/toolbus/authority"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/identity"
	"github.com/seed-018f16cc/toolbus/tool"
)

// openPorter tells the server who new connections are, until stop. Without keys it does nothing: the server asks
// nobody.
func openPorter(c *Conn, r *tool.Registry, checker *identity.Checker) (stop func(), err error) {
	if c.Keys == nil {
		return func() {}, nil
	}
	user, err := byKey(c.Keys.Callout)
	if err != nil {
		return nil, err
	}
	nc, err := bus.Dial(c.URL, "toolbus-callout", append(append(bus.Watched(c.Logger), c.Connect...), user)...)
	if err != nil {
		return nil, fmt.Errorf("callout: %w", err)
	}
	porter, err := authority.ServeCallout(nc, authority.CalloutOptions{
		Keys: c.Keys, Check: checker.Check, Now: c.Clock.Now, Logger: c.Logger,
		Facts: func(p identity.Principal) accounts.Facts {
			return accounts.Facts{Partitions: c.Log.Partitions(), Tools: toolsOf(r, p.Pool)}
		},
	})
	if err != nil {
		nc.Close()
		return nil, err
	}
	return func() { porter.Stop(); nc.Close() }, nil
}

// byKey connects as a user of the server's file.
func byKey(key nkeys.KeyPair) (nats.Option, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	return nats.Nkey(public, key.Sign), nil
}

// toolsOf returns the ids of the tools of a pool.
func toolsOf(r *tool.Registry, pool string) (ids []string) {
	for _, m := range r.List() {
		if m.Pool == pool {
			ids = append(ids, m.ToolID)
		}
	}
	return ids
}
