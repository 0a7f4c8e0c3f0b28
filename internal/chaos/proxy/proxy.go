package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Odds are the probabilities, from 0 to 1, that a message is dropped, delayed or doubled. Most is the longest delay.
// The zero value lets all messages pass.
type Odds struct {
	Drop, Delay, Double float64
	Most                time.Duration
}

// Trouble maps kinds of messages to their Odds.
type Trouble map[Kind]Odds

// Count is the number of messages of one kind by what happened to them.
type Count struct {
	Passed, Dropped, Delayed, Doubled int
}

// Proxy is a proxy for one server. Its methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	upstream string
	seed     uint64
	wg       sync.WaitGroup

	mu      sync.Mutex
	trouble Trouble
	counts  map[Kind]Count
	links   map[*link]bool
	opened  uint64 // grows by 2 per link; part of the seeds
	closed  bool
}

// Listen starts a proxy on a free loopback port for the server at upstream (host:port). The caller must call Close.
func Listen(upstream string, seed uint64) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{listener: l, upstream: upstream, seed: seed, counts: map[Kind]Count{}, links: map[*link]bool{}}
	p.wg.Go(p.accept)
	return p, nil
}

// URL returns the URL for clients.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// Set replaces the trouble; nil lets all messages pass.
func (p *Proxy) Set(t Trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = maps.Clone(t)
}

// Cut closes all connections. Clients may reconnect at once.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Counts returns the counts so far.
func (p *Proxy) Counts() map[Kind]Count {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// Close stops the proxy and waits for its goroutines.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.Cut()
	p.wg.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client has already given up
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// dialTimeout is the timeout for a connection to the server, which may be frozen.
const dialTimeout = 5 * time.Second

// serve forwards messages in both directions until either side closes.
func (p *Proxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.upstream, dialTimeout)
	if err != nil {
		_ = client.Close() // the server is down, so close the client's connection too
		return
	}
	l := p.open(client, server)
	if l == nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(l, client, l.toServer, l.seed) })
	both.Go(func() { p.pump(l, server, l.toClient, l.seed+1) })
	both.Wait()
	l.late.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// link is a connection of a client with the connection to the server.
type link struct {
	client, server     net.Conn
	toServer, toClient *writer
	seed               uint64
	gone               chan struct{}
	once               sync.Once
	late               sync.WaitGroup // goroutines of delayed messages
}

func (p *Proxy) open(client, server net.Conn) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened += 2
	l := &link{
		client: client, server: server, toServer: newWriter(server), toClient: newWriter(client),
		seed: p.seed<<16 + p.opened, gone: make(chan struct{}),
	}
	if p.closed {
		l.close()
		return nil
	}
	p.links[l] = true
	return l
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.gone)
		_ = l.client.Close() // both end in any case
		_ = l.server.Close()
	})
}

// pump forwards the messages of one direction, with the current trouble.
func (p *Proxy) pump(l *link, from net.Conn, to *writer, seed uint64) {
	defer l.close()
	random := rand.New(rand.NewPCG(p.seed, seed))
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		f, err := readFrame(in)
		if err != nil {
			return
		}
		copies, delay := 1, time.Duration(0)
		if f.carries() {
			copies, delay = p.fate(kindOf(f), random)
		}
		switch {
		case delay > 0:
			l.later(to, f.raw, delay)
		default:
			for range copies {
				err = to.write(f.raw)
			}
		}
		if err == nil && in.Buffered() == 0 {
			err = to.flush()
		}
		if err != nil {
			return
		}
	}
}

// fate draws the number of copies of a message and its delay.
func (p *Proxy) fate(kind Kind, random *rand.Rand) (copies int, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	odds := p.trouble[kind]
	c := p.counts[kind]
	defer func() { p.counts[kind] = c }()
	chance := random.Float64()
	switch {
	case chance < odds.Drop:
		c.Dropped++
		return 0, 0
	case chance < odds.Drop+odds.Delay && odds.Most > 0:
		c.Delayed++
		return 1, 1 + time.Duration(random.Int64N(int64(odds.Most)))
	case chance < odds.Drop+odds.Delay+odds.Double:
		c.Doubled++
		return 2, 0
	}
	c.Passed++
	return 1, 0
}

// later writes raw after the delay, unless the link has ended.
func (l *link) later(to *writer, raw []byte, delay time.Duration) {
	l.late.Go(func() {
		t := time.NewTimer(delay)
		defer t.Stop()
		select {
		case <-l.gone:
			return
		case <-t.C:
		}
		if to.write(raw) != nil || to.flush() != nil {
			l.close()
		}
	})
}

// writer writes whole frames from several goroutines.
type writer struct {
	mu  sync.Mutex
	out *bufio.Writer
}

func newWriter(conn net.Conn) *writer { return &writer{out: bufio.NewWriterSize(conn, 64<<10)} }

func (w *writer) write(raw []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.out.Write(raw)
	return err
}

func (w *writer) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Flush()
}
