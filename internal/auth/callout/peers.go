package callout

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

const (
	// beatTime is the pause between two heartbeats of a dispatcher to the others, and between two looks at those of the
	// others.
	beatTime = 250 * time.Millisecond
	// hangRounds is the number of looks in a row without a heartbeat of a dispatcher, at each of which its servers
	// answered in time, after which its connections are closed. A server waits 2 s for the answer to an auth callout: the
	// next one that it asks has to be alive.
	hangRounds = 4
	// beatSubject is the subject of heartbeats. It is in the account SYS, which no tokens lead to.
	beatSubject = "toolbus.beat"
)

// Peers closes connections of dispatchers that hang: the server would send them requests and auth callouts, and nobody
// would answer. Each dispatcher has one. It sends heartbeats, which name its connections, and hears those of others. A
// dispatcher hangs if no heartbeat came for a second in which its servers answered in time. So a dispatcher that was
// suspended itself, or has lost its server, or has a server that does not answer, closes nothing. Its methods are safe
// for concurrent use. A nil Peers does nothing.
type Peers struct {
	kick *Disconnector
	id   string
	name string
	log  *slog.Logger

	mu    sync.Mutex
	own   []*nats.Conn
	peers map[string]*peer // by id
}

// peer is another dispatcher, by its last heartbeat.
type peer struct {
	beat
	heard bool // since the last look
	good  int  // looks in a row without a heartbeat, at which its servers answered in time
}

// beat is a heartbeat.
type beat struct {
	ID     string `json:"id"`
	Name   string `json:"name,omitzero"` // instance name, for logs; older builds send none
	Server string `json:"server"`        // over which it was sent
	// Connections are those that take requests. A dispatcher that stops names none.
	Connections []listener `json:"connections"`
}

// listener is a connection that takes requests.
type listener struct {
	Server string `json:"server"`
	CID    uint64 `json:"cid"`
}

// NewPeers returns a Peers that knows no others. nc is a connection to the account SYS. Others log name.
func NewPeers(nc *nats.Conn, name string, log *slog.Logger) *Peers {
	return &Peers{kick: NewDisconnector(nc), id: rand.Text(), name: name, log: log, peers: map[string]*peer{}}
}

// Name adds a connection to the heartbeats, until stop is called. Others close it when this process hangs, so it has to
// connect again by itself.
func (p *Peers) Name(nc *nats.Conn) (stop func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	p.own = append(p.own, nc)
	p.mu.Unlock()
	p.tell(p.connections()) // this process may hang before the next heartbeat
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.own = slices.DeleteFunc(p.own, func(c *nats.Conn) bool { return c == nc })
	}
}

// Run sends heartbeats, and closes the connections of others that hang, until ctx ends.
func (p *Peers) Run(ctx context.Context) {
	nc := p.kick.nc
	sub, err := nc.Subscribe(beatSubject, func(m *nats.Msg) { p.hear(m.Data) })
	if err != nil { // it is closed
		return
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	var looking sync.WaitGroup
	looking.Go(func() { every(ctx, beatTime, func() { p.look(ctx) }) })
	every(ctx, beatTime, func() { p.tell(p.connections()) })
	looking.Wait()
	p.tell(nil)
}

// every calls do at once and after each pause until ctx ends.
func every(ctx context.Context, pause time.Duration, do func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for ctx.Err() == nil {
		do()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// tell sends a heartbeat. It is lost without a connection: then the others hear that the server has not answered.
func (p *Peers) tell(all []listener) {
	data, err := json.Marshal(beat{p.id, p.name, p.kick.nc.ConnectedServerId(), all})
	if err == nil {
		err = p.kick.nc.Publish(beatSubject, data)
	}
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) && p.kick.nc.IsConnected() {
		p.log.Warn("a heartbeat to other dispatchers was not sent", "err", err)
	}
}

// connections returns the named connections that are open.
func (p *Peers) connections() (all []listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, nc := range p.own {
		server := nc.ConnectedServerId()
		if cid, err := nc.GetClientID(); err == nil && server != "" {
			all = append(all, listener{server, cid})
		}
	}
	return all
}

func (p *Peers) hear(data []byte) {
	var b beat
	if err := json.Unmarshal(data, &b); err != nil || b.ID == p.id {
		return // or a newer build has sent it
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.peers, b.ID)
	if len(b.Connections) > 0 {
		p.peers[b.ID] = &peer{beat: b, heard: true}
	}
}

// look judges the dispatchers that sent no heartbeat since the last look.
func (p *Peers) look(ctx context.Context) {
	var silent []*peer
	p.mu.Lock()
	for _, of := range p.peers {
		if !of.heard {
			silent = append(silent, of)
		}
		of.heard = false
	}
	p.mu.Unlock()
	for _, of := range silent {
		if p.hangs(ctx, of) {
			p.close(ctx, of)
		}
	}
}

// hangs asks the servers of a silent dispatcher, and reports whether it hangs. Then, and if a server is gone, it
// forgets the dispatcher: its next heartbeat makes it known again.
func (p *Peers) hangs(ctx context.Context, of *peer) bool {
	err := p.askServers(ctx, of)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.peers[of.ID] != of { // it was heard meanwhile
		return false
	}
	if of.good++; err != nil {
		of.good = 0
	}
	if of.good == hangRounds || errors.Is(err, nats.ErrNoResponders) {
		delete(p.peers, of.ID)
	}
	return of.good == hangRounds
}

// askServers returns nil if all servers of a dispatcher answer within beatTime. Their answers come the way that its
// heartbeats would come.
func (p *Peers) askServers(ctx context.Context, of *peer) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, beatTime)
	defer cancel()
	servers := []string{of.Server}
	for _, c := range of.Connections {
		servers = append(servers, c.Server)
	}
	slices.Sort(servers)
	for _, server := range slices.Compact(servers) {
		if _, err := p.kick.ask(ctx, server, "IDZ", nil); err != nil {
			return err
		}
	}
	if time.Since(began) > beatTime { // this process was suspended
		return context.DeadlineExceeded
	}
	return nil
}

// close closes the connections of a dispatcher that hangs. The servers have closed those of a dispatcher that died.
func (p *Peers) close(ctx context.Context, of *peer) {
	hung, log := false, p.log.With("dispatcher", cmp.Or(of.Name, of.ID))
	for _, c := range of.Connections {
		open, err := p.kick.close(ctx, c.Server, c.CID)
		if hung = hung || open; err != nil {
			log.Warn("a connection of a dispatcher that hangs was not closed", "err", err)
		}
	}
	if hung {
		log.Warn("a dispatcher hangs: its connections for requests were closed")
	} else {
		log.Warn("a dispatcher sends no more heartbeats and has no connections for requests: it died, or another " +
			"dispatcher closed them because it hangs")
	}
}
