package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/callout"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// openCallout answers the auth callout of the NATS server, and closes connections with revoked tokens and those of
// dispatchers that hang, until stop is called. If c has no keys it does nothing.
func openCallout(c *dispatcherProcess) (peers *callout.Peers, stop func(), err error) {
	s := c.tokens
	if c.Keys == nil {
		return nil, func() {}, nil
	}
	asked, err := c.dialAs("callout", c.Keys.Callout)
	if err != nil {
		return nil, nil, err
	}
	system, err := c.dialAs("system", c.Keys.System)
	if err != nil {
		asked.Close()
		return nil, nil, err
	}
	peers = callout.NewPeers(system, c.Instance, c.Logger)
	peers.Name(asked)
	out := callout.NewRevocationWatcher(s, system)
	open := callout.NewConnections(system, c.Clock.Now, c.Logger)
	porter, err := callout.Serve(asked, callout.Options{
		Keys: c.Keys, Check: s.Verifier().Verify, Now: c.Clock.Now, Note: out.Note, Admit: open.Admit,
		Refused: func() { c.tally.refused.Add(1) }, Logger: c.Logger,
		Inputs: func(p auth.Principal) auth.PermissionInputs {
			return auth.PermissionInputs{Partitions: c.Log.Partitions(), Tools: toolsOf(c.options.Tools, p.Pool)}
		},
	})
	if err != nil {
		asked.Close()
		system.Close()
		return nil, nil, err
	}
	end := startAll(context.Background(), out.Run, open.Run, peers.Run)
	return peers, func() { end(); porter.Stop(); asked.Close(); system.Close() }, nil
}

// dialAs connects as a user of the server configuration, who authenticates with key.
func (c *Conn) dialAs(name string, key nkeys.KeyPair) (*nats.Conn, error) {
	user, err := byKey(key)
	if err != nil {
		return nil, err
	}
	nc, err := bus.Dial(c.URL, "toolbus-"+name, slices.Concat(c.Watch, c.Connect, []nats.Option{user})...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return nc, nil
}

// byKey returns the connection option for the user of the server configuration whose NKey is key.
func byKey(key nkeys.KeyPair) (nats.Option, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	return nats.Nkey(public, key.Sign), nil
}

// toolsOf returns the ids of the tools in a pool.
func toolsOf(r *tool.Set, pool string) (ids []string) {
	for _, m := range r.List() {
		if m.Pool == pool {
			ids = append(ids, m.ToolID)
		}
	}
	return ids
}
