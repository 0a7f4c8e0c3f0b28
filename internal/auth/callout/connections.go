package callout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// Limits of the connections of one root family, on all servers together. A root family is a credential with all tokens
// that were narrowed from it.
const (
	// FamilyConnections is the limit of open connections. Dispatchers close the newest connections beyond it. They refuse
	// new ones while the last lists of the servers show that the limit is reached. Otherwise they refuse only those beyond
	// twice the limit, because the connections of a server that crashed still count until the next list.
	FamilyConnections = 256
	// keptForOthers is the number of connections of the account AGENTS that only gateways and operators can use.
	keptForOthers = 50

	// lookTime is the pause between requests for the lists of connections. It is multiplied by the number of connections
	// divided by lookMany.
	lookTime = 250 * time.Millisecond
	lookMany = 500
	// admitted is how long an accepted connection counts before a server has to list it.
	admitted = time.Second
)

// shutOutSubject is the subject on which dispatchers tell each other that a family floods. It is in the account SYS,
// which no tokens lead to.
const shutOutSubject = "toolbus.shutout"

// place identifies a connection: the id of its server, and its id on that server.
type place struct {
	server string
	cid    uint64
}

// open is a connection.
type open struct {
	root       string // family; "" of dispatchers
	agent      bool   // in AGENTS, and neither a gateway nor an operator
	asks       bool   // in AGENTS
	executor   bool
	dispatcher bool
	since      time.Time
	at         time.Time // the time of counts
	counts     counts
	pending    int64 // bytes that waited for it in the last list
}

// opened returns the entry for a connection of a role in an account.
func opened(root, account string, r auth.Role, since time.Time) *open {
	asks := account == auth.Agents
	return &open{
		root: root, agent: asks && r != auth.Gateway && r != auth.Operator, asks: asks,
		executor: r == auth.Executor, since: since,
	}
}

// Connections limits the connections of each credential, and closes the connections of a credential if servers refuse
// too many of its messages. Each dispatcher has one. It counts a connection that it accepted at once, and a connection
// that another dispatcher accepted from the next list of the servers, about 0.5 s later. Connections that exceed the
// limit by then are closed. While no server lists its connections, accepted ones count until the server reports their
// end. Its methods are safe for concurrent use.
type Connections struct {
	kick *Disconnector
	now  func() time.Time
	log  *slog.Logger

	mu     sync.Mutex
	open   map[place]*open
	roots  map[string]int       // connections
	agents int                  // connections
	debts  map[string]*debt     // by family, also if its connections have ended
	heard  heard                // by dispatchers
	full   map[string]bool      // families that had reached the limit in the last lists
	looked time.Time            // when debts were last reduced
	out    map[string]time.Time // refused families, and until when
	slow   flow.Bucket          // limits what is logged of connections that unread finds
}

// NewConnections returns a Connections without entries. nc is a connection to the account SYS. now is bus time.
func NewConnections(nc *nats.Conn, now func() time.Time, log *slog.Logger) *Connections {
	return &Connections{
		kick: NewDisconnector(nc), now: now, log: log, open: map[place]*open{}, roots: map[string]int{},
		debts: map[string]*debt{}, out: map[string]time.Time{}, looked: now(),
		slow: flow.Bucket{Rate: logUnread, Burst: 1},
	}
}

// Admit counts a connection with a token of p that is about to be accepted to an account. It returns an error, the
// reason, if the connection must be refused. It is for [Options].Admit.
func (c *Connections) Admit(p auth.Principal, account, server string, cid uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, root := c.now(), p.Root()
	o := opened(root, account, p.Role, now)
	switch {
	case now.Before(c.out[root]):
		return fmt.Errorf("family %s is shut out until %s: servers refused or dropped too much of what it sent", root,
			c.out[root].Format(time.RFC3339))
	case c.roots[root] >= 2*FamilyConnections, c.full[root] && c.roots[root] >= FamilyConnections:
		return fmt.Errorf("family %s has the %d connections that it may have", root, FamilyConnections)
	case o.agent && c.agents >= auth.AgentConnections-keptForOthers:
		return errors.New("there are too many agents")
	}
	c.add(place{server, cid}, o)
	return nil
}

func (c *Connections) add(at place, o *open) {
	c.remove(at)
	c.open[at] = o
	if o.dispatcher {
		return
	}
	c.roots[o.root]++
	if o.agent {
		c.agents++
	}
}

func (c *Connections) remove(at place) {
	o := c.open[at]
	if o == nil {
		return
	}
	delete(c.open, at)
	if o.dispatcher {
		return
	}
	if c.roots[o.root]--; c.roots[o.root] == 0 {
		delete(c.roots, o.root)
	}
	if o.agent {
		c.agents--
	}
}

// Run requests the lists of the servers, counts connections, and closes those that must not stay open, until ctx ends
// or nc is closed.
func (c *Connections) Run(ctx context.Context) {
	nc := c.kick.nc
	back := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(back)
	for _, err := range []error{c.hear("$SYS.ACCOUNT.*.DISCONNECT", c.ended), c.hear(shutOutSubject, c.shut)} {
		if err != nil { // it is closed
			return
		}
	}
	failing := false
	for {
		err := c.look(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			c.log.Warn("the servers do not list their connections: some may be too many", "err", err)
		}
		failing = err != nil
		c.mu.Lock()
		pause := lookTime * time.Duration(max(1, len(c.open)/lookMany))
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-back:
		case <-time.After(pause):
		}
	}
}

func (c *Connections) hear(subject string, take func([]byte)) error {
	_, err := c.kick.nc.Subscribe(subject, func(msg *nats.Msg) { take(msg.Data) }) // ends with the connection
	return err
}

// look updates the counts from the lists of all servers, and closes connections beyond a limit and those of families
// that flood.
func (c *Connections) look(ctx context.Context) error {
	begun, answered := c.now(), map[string]bool{}
	err := c.kick.each(ctx, func(server string, all []connection) error {
		answered[server] = true
		c.counted(server, all, begun)
		return c.close(ctx, c.unread(server, all))
	})
	var closed []place
	if len(answered) > 0 {
		c.forget(func(at place) bool { return !answered[at.server] }, begun)
		closed = c.tooMany()
	}
	for root, of := range c.flooding() {
		err = errors.Join(err, c.kick.nc.Publish(shutOutSubject, []byte(root)))
		closed = append(closed, of...)
	}
	return errors.Join(err, c.close(ctx, closed))
}

func (c *Connections) close(ctx context.Context, all []place) (err error) {
	for _, at := range all {
		_, failed := c.kick.close(ctx, at.server, at.cid)
		err = errors.Join(err, failed)
	}
	return err
}

// counted updates the entries of a server from its list. asked is the time before the list was requested.
func (c *Connections) counted(server string, all []connection, asked time.Time) {
	listed := map[uint64]bool{}
	c.mu.Lock()
	for _, l := range all {
		listed[l.CID] = true
		c.update(place{server, l.CID}, l)
	}
	c.mu.Unlock()
	c.forget(func(at place) bool { return at.server == server && !listed[at.cid] }, asked)
}

// update updates or adds the entry of one connection. The caller holds c.mu.
func (c *Connections) update(at place, l connection) {
	u, ok := auth.ParseUser(l.User)
	dispatcher := l.Account == auth.TB
	if !ok && !dispatcher {
		return
	}
	o := c.open[at]
	switch {
	case o != nil:
	case dispatcher:
		o = &open{dispatcher: true, since: l.Start}
		c.add(at, o)
	default: // another dispatcher has accepted it, perhaps long ago
		o = opened(auth.RootOf(u.Family), l.Account, u.Role, l.Start)
		c.add(at, o)
	}
	c.traffic(o, l)
}

// ended handles the event of a server that a connection was closed. The event has the final counts.
func (c *Connections) ended(event []byte) {
	type count struct {
		Msgs  int64 `json:"msgs"`
		Bytes int64 `json:"bytes"`
	}
	var e struct {
		Server struct {
			ID string `json:"id"`
		} `json:"server"`
		Client struct {
			CID     uint64    `json:"id"`
			User    string    `json:"user"`
			Account string    `json:"acc"`
			Start   time.Time `json:"start"`
		} `json:"client"`
		Sent     count `json:"sent"`     // by the client
		Received count `json:"received"` // by the client
	}
	if err := json.Unmarshal(event, &e); err != nil {
		c.log.Warn("a server says of an ended connection what cannot be read", "err", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := place{e.Server.ID, e.Client.CID}
	c.update(at, connection{
		CID: e.Client.CID, User: e.Client.User, Account: e.Client.Account, Start: e.Client.Start,
		counts: counts{e.Sent.Msgs, e.Received.Msgs, e.Sent.Bytes, e.Received.Bytes},
	})
	c.remove(at)
}

// forget removes the connections for which gone returns true, if they were accepted longer than admitted before the
// lists were requested.
func (c *Connections) forget(gone func(place) bool, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, o := range c.open {
		if gone(at) && o.since.Before(asked.Add(-admitted)) {
			c.heard.partial = c.heard.partial || o.dispatcher
			c.remove(at)
		}
	}
}

// tooMany returns the newest connections of each family beyond the limit, and notes which families have reached it.
func (c *Connections) tooMany() (all []place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full = map[string]bool{}
	for root, n := range c.roots {
		if n < FamilyConnections {
			continue
		}
		c.full[root] = true
		of := c.of(root)
		slices.SortFunc(of, func(a, b place) int { // so that all dispatchers choose the same
			return cmp.Or(c.open[b].since.Compare(c.open[a].since), cmp.Compare(b.cid, a.cid))
		})
		all = append(all, of[:n-FamilyConnections]...)
	}
	return all
}

func (c *Connections) of(root string) (all []place) {
	for at, o := range c.open {
		if o.root == root {
			all = append(all, at)
		}
	}
	return all
}
