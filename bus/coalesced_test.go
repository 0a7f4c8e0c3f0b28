package bus_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// trouble names a fault that a cutter causes in the bytes of a client.
type trouble string

const (
	cuts    trouble = "cuts"    // ends the connection
	freezes trouble = "freezes" // passes nothing on until the client connects again
	slows   trouble = "slows"   // passes on byte by byte, then ends the connection
)

// cutter is a proxy that makes trouble on each connection before the byte at an offset behind the handshake.
type cutter struct {
	t        *testing.T
	listener net.Listener
	upstream string
	does     trouble
	offsets  []int // of the connections in their order; the others have no trouble
	running  sync.WaitGroup

	mu     sync.Mutex
	opened int
	thaw   func() // ends the connection that is frozen; may be nil
	inside int    // offsets that were inside bytes of several messages
}

func startCutter(t *testing.T, url string, does trouble, offsets []int) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{t: t, listener: l, upstream: strings.TrimPrefix(url, "nats://"), does: does, offsets: offsets}
	c.running.Go(c.accept)
	t.Cleanup(func() {
		_ = l.Close()
		c.next()
		c.running.Wait()
	})
	return c
}

func (c *cutter) url() string { return "nats://" + c.listener.Addr().String() }

// next ends the connection that is frozen, and returns the offset of the next one.
func (c *cutter) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.thaw != nil {
		c.thaw()
		c.thaw = nil
	}
	c.opened++
	if c.opened > len(c.offsets) {
		return -1
	}
	return c.offsets[c.opened-1]
}

// over reports whether there was trouble at all offsets.
func (c *cutter) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened > len(c.offsets)
}

func (c *cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return // the test ends
		}
		offset := c.next()
		srv, err := net.Dial("tcp", c.upstream)
		if err != nil {
			c.t.Error(err)
			_ = client.Close()
			continue
		}
		end := func() { _ = errors.Join(client.Close(), srv.Close()) }
		c.running.Go(func() { defer end(); _, _ = io.Copy(client, srv) }) // until either end closes
		c.running.Go(func() { defer end(); c.pass(client, srv, offset) })
	}
}

// pass passes on the bytes of a client up to the offset, which counts from the end of the handshake: the first PING.
func (c *cutter) pass(client, srv net.Conn, offset int) {
	buf, connecting := make([]byte, 128<<10), true
	for {
		n, err := client.Read(buf)
		sent := buf[:n]
		switch reached := offset >= 0 && n > offset; {
		case err != nil:
			return
		case connecting:
			connecting = !bytes.HasSuffix(sent, []byte("PING\r\n"))
			_, _ = srv.Write(sent) // the next Read fails, too
		case reached:
			c.forward(srv, sent[:offset])
			c.strike(sent)
			return
		default:
			c.forward(srv, sent)
			offset -= min(n, max(offset, 0))
		}
	}
}

func (c *cutter) forward(to net.Conn, sent []byte) {
	if c.does != slows {
		_, _ = to.Write(sent) // the next Read fails, too
		return
	}
	for i := range sent {
		_, _ = to.Write(sent[i : i+1])
	}
}

// strike counts, and returns when the connection is to end.
func (c *cutter) strike(sent []byte) {
	c.mu.Lock()
	if bytes.Count(sent, []byte("HPUB ")) > 1 {
		c.inside++
	}
	if c.does != freezes || c.opened > len(c.offsets) {
		c.mu.Unlock()
		return
	}
	wait := make(chan struct{})
	c.thaw = func() { close(wait) }
	c.mu.Unlock()
	<-wait
}

// generation holds a context that ends when the client reconnects.
type generation struct {
	mu  sync.Mutex
	ctx context.Context
	end context.CancelFunc
}

func (g *generation) renew(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.end != nil {
		g.end()
	}
	g.ctx, g.end = context.WithCancel(ctx)
}

func (g *generation) now() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ctx
}

// Whatever happens to a connection within a write of several messages: no message is lost that was acknowledged, none
// is stored in part, and the connection comes back.
func TestTroubleInsideWrites(t *testing.T) {
	offsets := func(first, step, n int) (all []int) {
		for i := range n {
			all = append(all, first+i*step)
		}
		return all
	}
	for does, at := range map[trouble][]int{
		cuts:    slices.Concat(offsets(0, 1, 600), offsets(600, 97, 200)),
		freezes: offsets(0, 23, 60),
		slows:   offsets(0, 31, 150),
	} {
		t.Run(string(does), func(t *testing.T) { published(t, does, at) })
	}
}

func published(t *testing.T, does trouble, offsets []int) {
	srv := natstest.Start(t)
	direct := srv.JetStream(t)
	stream, err := direct.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	c, g := startCutter(t, srv.URL, does, offsets), &generation{}
	g.renew(ctx)
	nc, err := bus.Dial(c.url(), "publisher", nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.PingInterval(25*time.Millisecond), nats.MaxPingsOutstanding(1),
		nats.ReconnectHandler(func(*nats.Conn) { g.renew(ctx) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if strings.Contains(strings.ToLower(err.Error()), "protocol") {
				t.Error(err)
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	acked := publishAll(ctx, t, js, g, c.over)
	nc.Close()
	stacks := make([]byte, 1<<20)
	if left := string(stacks[:runtime.Stack(stacks, true)]); strings.Contains(left, "coalesce.(*Conn).drain") {
		t.Errorf("a goroutine is left:\n%s", left)
	}
	info, err := stream.Info(t.Context())
	if err != nil || int(info.State.Msgs) != len(acked) {
		t.Fatalf("%+v is stored, %d messages were acknowledged, %v", info, len(acked), err)
	}
	for sequence, text := range acked {
		m, err := stream.GetMsg(t.Context(), sequence)
		if err != nil || string(m.Data) != text {
			t.Fatalf("%d is not %.40q: %v", sequence, text, err)
		}
	}
	t.Logf("%d messages, %d connections, %d offsets inside writes of several messages", len(acked), c.opened, c.inside)
	if c.inside < len(offsets)/4 {
		t.Errorf("only %d of %d offsets were inside writes of several messages", c.inside, len(offsets))
	}
}

// publishAll has 100 publishers publish until over, each message until it is acknowledged, and returns what is stored.
func publishAll(
	ctx context.Context, t *testing.T, js jetstream.JetStream, g *generation, over func() bool,
) map[uint64]string {
	var publishers sync.WaitGroup
	var mu sync.Mutex
	acked := map[uint64]string{}
	for p := range 100 {
		publishers.Go(func() {
			for n := 0; !over() && ctx.Err() == nil; n++ {
				text := fmt.Sprintf("%d.%d %s", p, n, strings.Repeat("x", n*31%200))
				for ctx.Err() == nil {
					now := g.now()
					ack, err := js.Publish(now, fmt.Sprintf("s.%d", p), []byte(text),
						jetstream.WithMsgID(fmt.Sprintf("%d.%d", p, n)), jetstream.WithRetryAttempts(0))
					if err != nil {
						<-now.Done() // until the connection is back
						continue
					}
					mu.Lock()
					if other, ok := acked[ack.Sequence]; ok {
						t.Errorf("%d was acknowledged as %q and as %q", ack.Sequence, other, text)
					}
					acked[ack.Sequence] = text
					mu.Unlock()
					break
				}
			}
		})
	}
	publishers.Wait()
	if ctx.Err() != nil {
		t.Error("it does not end")
	}
	return acked
}

// A server that reads nothing any more blocks senders until nats.go's timeout of a flush. Then they go on elsewhere.
func TestFrozenServer(t *testing.T) {
	srv := natstest.Start(t)
	c := startCutter(t, srv.URL, freezes, []int{1000})
	again := make(chan struct{})
	nc, err := bus.Dial(c.url(), "sender", nats.ReconnectWait(time.Millisecond), nats.FlusherTimeout(300*time.Millisecond),
		nats.PingInterval(time.Hour), nats.ReconnectHandler(func(*nats.Conn) { close(again) }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for sent := 0; ; sent++ {
		select {
		case <-again:
			if err := nc.FlushTimeout(time.Minute); err != nil {
				t.Error(err)
			}
			t.Logf("%d messages", sent)
			return
		default:
		}
		err := nc.Publish("a", make([]byte, 10_000))
		if err != nil && !errors.Is(err, nats.ErrReconnectBufExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
}

// counting dials connections whose writes it counts.
type counting struct{ writes atomic.Int64 }

type countedConn struct {
	net.Conn
	by *counting
}

func (c *counting) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return countedConn{conn, c}, err
}

func (c countedConn) Write(p []byte) (int, error) {
	c.by.writes.Add(1)
	return c.Conn.Write(p)
}

// Many publishers at once share writes. One that waits for each acknowledgement needs a write for each message.
func TestWritesAreShared(t *testing.T) {
	srv := natstest.Start(t)
	stream := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}
	if _, err := srv.JetStream(t).CreateStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	c := &counting{}
	nc, err := bus.Dial(srv.URL, "publisher", nats.SetCustomDialer(c))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	const each = 100
	for _, n := range []int{1, 64} {
		before := c.writes.Load()
		var publishers sync.WaitGroup
		for range n {
			publishers.Go(func() {
				for range each {
					if _, err := js.Publish(t.Context(), "s.x", []byte("text")); err != nil {
						t.Error(err)
					}
				}
			})
		}
		publishers.Wait()
		writes := c.writes.Load() - before
		t.Logf("%d publishers: %d writes for %d messages", n, writes, n*each)
		if n > 1 && int(writes) > n*each/2 {
			t.Errorf("%d writes for %d messages", writes, n*each)
		}
	}
}

// The promises of nats.go hold: published messages have arrived after a flush, and arrive before the client closes,
// drains or reconnects. The test runs without and with TLS, which writes whole records to the connection below it.
func TestFlushed(t *testing.T) {
	certificate, pool := natstest.Certificate(t)
	srv := natstest.Start(t)
	secret := natstest.Start(t, func(o *server.Options) {
		o.TLSConfig, o.TLSTimeout = &tls.Config{Certificates: []tls.Certificate{certificate}}, 30
	})
	for name, ends := range map[string]func(*nats.Conn) error{
		"flush":     func(nc *nats.Conn) error { return nc.FlushTimeout(time.Minute) },
		"close":     func(nc *nats.Conn) error { nc.Close(); return nil },
		"drain":     func(nc *nats.Conn) error { return nc.Drain() },
		"reconnect": func(nc *nats.Conn) error { return nc.ForceReconnect() },
	} {
		t.Run(name, func(t *testing.T) { arrives(t, srv, nil, ends) })
		t.Run(name+", encrypted", func(t *testing.T) { arrives(t, secret, nats.Secure(&tls.Config{RootCAs: pool}), ends) })
	}
}

func arrives(t *testing.T, srv *natstest.Server, secure nats.Option, ends func(*nats.Conn) error) {
	const messages = 20_000
	got, all := atomic.Int64{}, make(chan struct{})
	receiver := srv.Connect(t, secure)
	if _, err := receiver.Subscribe("a", func(*nats.Msg) {
		if got.Add(1) == messages {
			close(all)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := receiver.FlushTimeout(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	nc, err := bus.Dial(srv.URL, "sender", secure)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	// The server sends its second INFO after the first PONG. If the client closes before it has read that, TCP resets the
	// connection, and the server loses what it has not read yet. nats.go alone does not prevent that either.
	if err := nc.FlushTimeout(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	var senders sync.WaitGroup
	for range 10 {
		senders.Go(func() {
			for range messages / 10 {
				if err := nc.Publish("a", []byte("some text")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	if err := ends(nc); err != nil {
		t.Fatal(err)
	}
	select {
	case <-all:
	case <-time.After(30 * time.Second):
		t.Errorf("%d of %d messages arrived", got.Load(), messages)
	}
}

// A connection has the states that it has without us.
func TestStates(t *testing.T) {
	srv := natstest.Start(t)
	nc, err := bus.Dial(srv.URL, "x")
	if err != nil {
		t.Fatal(err)
	}
	changes := nc.StatusChanged()
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	var states []nats.Status
	for len(states) == 0 || states[len(states)-1] != nats.CLOSED {
		select {
		case state := <-changes:
			if states = append(states, state); state == nats.CONNECTED {
				nc.Close()
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("after %v nothing", states)
		}
	}
	if want := []nats.Status{nats.RECONNECTING, nats.CONNECTED, nats.CLOSED}; !slices.Equal(states, want) {
		t.Errorf("%v, want %v", states, want)
	}
}

// encrypting is a dialer that speaks TLS by itself, and is asked whether it does.
type encrypting struct {
	net.Dialer
	config *tls.Config
	conn   *late
}

// late is a connection that becomes encrypted when the server has said that it is.
type late struct{ net.Conn }

func (e *encrypting) Dial(network, address string) (net.Conn, error) {
	conn, err := e.Dialer.Dial(network, address)
	e.conn = &late{conn}
	return e.conn, err
}

func (e *encrypting) SkipTLSHandshake() bool {
	e.conn.Conn = tls.Client(e.conn.Conn, e.config)
	return true
}

// The dialers that a program names are used.
func TestDialers(t *testing.T) {
	certificate, pool := natstest.Certificate(t)
	secret := natstest.Start(t, func(o *server.Options) {
		o.TLSConfig, o.TLSTimeout = &tls.Config{Certificates: []tls.Certificate{certificate}}, 30
	})
	dialed := 0
	d := net.Dialer{Control: func(string, string, syscall.RawConn) error { dialed++; return nil }}
	e := &encrypting{Dialer: d, config: &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}}
	for n, options := range [][]nats.Option{
		{nats.Dialer(&d), nats.Secure(&tls.Config{RootCAs: pool})},
		{nats.SetCustomDialer(e), nats.Secure()},
	} {
		nc, err := bus.Dial(secret.URL, "x", options...)
		if err != nil {
			t.Fatal(n, err)
		}
		if err := nc.FlushTimeout(30 * time.Second); err != nil || dialed != n+1 {
			t.Errorf("%d: %v, %d times dialed", n, err, dialed)
		}
		nc.Close()
	}
	if _, err := bus.Dial("nats://127.0.0.1:1", "x"); !bus.IsUnreachable(err) {
		t.Error(err)
	}
}
