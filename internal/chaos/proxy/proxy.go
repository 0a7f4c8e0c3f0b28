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

// Odds are the chances, from 0 to 1, that a message meets trouble, and how long a delay lasts at
// the most. The zero value makes none.
type Odds struct {
	Drop, Delay, Double float64
	Most                time.Duration
}

// Trouble says which odds hold for which kind of message.
type Trouble map[Kind]Odds

// Count is what became of the messages of one kind.
type Count struct {
	Passed, Dropped, Delayed, Doubled int
}

// Proxy stands before one server. Its methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	upstream string
	seed     uint64
	wg       sync.WaitGroup

	mu      sync.Mutex
	trouble Trouble
	counts  map[Kind]Count
	links   map[*link]bool
	opened  uint64 // links so far
	closed  bool
}

// Listen starts a proxy on a free loopback port for the server at upstream (host:port). Close it.
func Listen(upstream string, seed uint64) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{listener: l, upstream: upstream, seed: seed, counts: map[Kind]Count{}, links: map[*link]bool{}}
	p.wg.Go(p.accept)
	return p, nil
}

// URL is where clients connect.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// Set replaces the trouble that is made from now on; nil makes none.
func (p *Proxy) Set(t Trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = maps.Clone(t)
}

// Cut ends all connections; clients may come again at once.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Counts returns what became of the messages so far.
func (p *Proxy) Counts() map[Kind]Count {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// Close ends the proxy and waits until nothing of it is left.
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
			continue // the client gave up before we were there
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// dialTimeout bounds the way to the server, which may be frozen.
const dialTimeout = 5 * time.Second

// serve passes messages both ways until either side ends.
func (p *Proxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.upstream, dialTimeout)
	if err != nil {
		_ = client.Close() // the server is down: so is this connection
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

// link is one connection of a client, and ours to the server for it.
type link struct {
	client, server     net.Conn
	toServer, toClient *writer
	seed               uint64
	gone               chan struct{}
	once               sync.Once
	late               sync.WaitGroup // delayed messages
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
		_ = l.client.Close() // both are over anyway
		_ = l.server.Close()
	})
}

// pump passes the messages of one direction on, with the trouble that holds for them.
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

// fate decides what becomes of one message: how many copies pass, and after which delay.
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

// writer writes whole frames, from several goroutines.
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
