package attack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/callout"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
)

const (
	// hoarded is the number of connections of the hoarder before a server is lost.
	hoarded = 250
	// freed bounds the time until the connections of a lost server do not count any more, and others have their slots.
	freed = 15 * time.Second
	// steady is the time during which the bound holds while the hoarder goes on to ask.
	steady = 3 * time.Second
)

// hoarder has one token, and opens as many connections as servers take.
type hoarder struct {
	*siege
	file, token, family string

	full   atomic.Int64 // refusals that name the bound
	others sync.Map     // other refusals of servers that run, and when the last connection that got it was asked for
	open   sync.Map     // rawConn
}

// TestServerLost kills one of three servers while one token has 250 connections on them and asks for more. The bound of
// its family holds on the servers that are left, where the connections of the lost one do not count. Honest clients,
// those of the lost server included, connect again and call. It needs three servers, and so -full.
func TestServerLost(t *testing.T) {
	if !*full {
		t.Skip("it starts three servers: .ci/run and make attack run it with -full")
	}
	s := besiege(t)
	s.startDispatcher()
	h := &hoarder{siege: s}
	h.file, h.token = s.Credential(auth.Principal{Actor: mallory, Role: auth.Agent})
	says, err := auth.Inspect(h.token)
	s.must(err)
	h.family = says.Family
	honest := s.spread()
	for i := range hoarded {
		h.must(h.ask(i % len(s.Servers)))
	}
	system := s.system(0)
	if n := h.listed(system, len(s.Servers)); n != hoarded {
		t.Fatalf("the servers list %d connections of the hoarder", n)
	}
	lost := len(s.Servers) - 1
	killed := time.Now()
	s.Servers[lost].Kill()
	stop := h.insist(lost)
	defer stop()
	var calling sync.WaitGroup
	for i, c := range honest {
		calling.Go(func() { s.callAgain(i, c) })
	}
	most, held := h.settle(system, lost, killed)
	calling.Wait()
	h.refusals(most, held, s.Host(0))
}

// spread returns an honest client for each server, which knows the others.
func (s *siege) spread() (all []*clientlib.Client) {
	s.Helper()
	urls := strings.Split(s.URL, ",")
	for i := range urls {
		turned := strings.Join(slices.Concat(urls[i:], urls[:i]), ",")
		all = append(all, s.agentAt(turned, fmt.Sprint("agent://honest-", i), nats.DontRandomize()))
	}
	return all
}

// callAgain calls as an honest client.
func (s *siege) callAgain(i int, c *clientlib.Client) {
	r, err := c.Call(context.WithoutCancel(s.Context()), clientlib.Call{
		Tool: "transcript.clean", Input: []byte(`{"text":"after ` + auth.NewID() + `"}`), Timeout: 20 * time.Second,
	})
	if err != nil || r.Status != envelope.Success {
		s.Errorf("honest client %d after the loss: %+v, %v", i, r, err)
	}
}

// system connects to the account of a server that lists connections.
func (s *siege) system(i int) *rawConn {
	s.Helper()
	return rawDial(s.T, rawOptions{url: "nats://" + s.Host(i), tls: s.TLS(), key: s.Keys.System})
}

// listed returns how many connections of the hoarder the servers list. It waits for the lists of so many servers.
func (h *hoarder) listed(system *rawConn, servers int) (n int) {
	h.Helper()
	to := "listed." + auth.NewID()
	h.must(system.subscribe(to))
	h.must(system.publish("$SYS.REQ.SERVER.PING.CONNZ", to, "", `{"auth":true,"limit":2048}`))
	ours := func(m rawMsg) bool { return m.subject == to }
	h.must(system.until(func() bool {
		n := 0
		for _, m := range system.messages {
			if ours(m) {
				n++
			}
		}
		return n == servers
	}))
	for _, m := range system.received(ours) {
		n += strings.Count(string(m.body), h.family+`"`)
	}
	system.mu.Lock()
	system.messages = nil
	system.mu.Unlock()
	return n
}

// ask opens a connection to a server.
func (h *hoarder) ask(i int) error {
	c, err := rawConnect(rawOptions{url: "nats://" + h.Host(i), tls: h.TLS(), token: h.token, name: "one of many"})
	if err != nil {
		return err
	}
	h.open.Store(c, true)
	go func() {
		c.listen()
		h.open.Delete(c)
	}()
	return nil
}

// insist asks for connections to all servers but the lost one, again and again, until stop.
func (h *hoarder) insist(lost int) (stop func()) {
	over := make(chan struct{})
	var asking sync.WaitGroup
	for worker := range 4 {
		asking.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				began := time.Now()
				switch err := h.ask(worker % lost); {
				case err == nil:
				case strings.Contains(err.Error(), "maximum account active connections exceeded"):
					h.full.Add(1)
				case strings.Contains(err.Error(), "-ERR"):
					h.others.Store(err.Error(), began)
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		close(over)
		asking.Wait()
		h.open.Range(func(c, _ any) bool {
			_ = c.(*rawConn).conn.Close()
			<-c.(*rawConn).done
			return true
		})
	})
}

// settle waits until the servers that are left list as many connections of the hoarder as a family may have, and no
// more for a while. It returns the most that they have listed, and since when the bound holds.
func (h *hoarder) settle(system *rawConn, servers int, killed time.Time) (most int, since time.Time) {
	h.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var first time.Time
	for n := 0; since.IsZero() || time.Since(since) < steady; <-tick.C {
		n = h.listed(system, servers)
		most = max(most, n)
		switch full := n == callout.FamilyConnections; {
		case full && since.IsZero():
			since = time.Now()
		case !full:
			since = time.Time{}
		}
		if first.IsZero() && n >= hoarded {
			first = time.Now()
		}
		if since.IsZero() && time.Since(killed) > freed {
			h.Fatalf("%s after the loss the servers list %d connections of the hoarder, and at most %d", freed, n, most)
		}
	}
	h.Logf("the slots of the lost server were taken after %s, and the bound holds after %s; at most %d",
		first.Sub(killed).Round(time.Millisecond), since.Sub(killed).Round(time.Millisecond), most)
	return most, since
}

// refusals checks what the hoarder was told since the bound holds: the bound is reached, and its token is good. Before,
// a question about a connection may have been lost with the server that a dispatcher was connected to. A client of one
// server that is left is asked, since nats.go forgets a refusal when the last server that it tries is the lost one.
func (h *hoarder) refusals(most int, held time.Time, left string) {
	h.Helper()
	if dispatchers := 2; most > dispatchers*2*callout.FamilyConnections {
		h.Errorf("%d connections at once", most)
	}
	if h.full.Load() == 0 {
		h.Error("no refusal names the bound")
	}
	h.others.Range(func(said, began any) bool {
		if began.(time.Time).After(held) {
			h.Errorf("the hoarder reads %s", said)
		}
		return true
	})
	_, err := toolbus.Connect(h.Context(), "tls://"+left, toolbus.Options{CredentialsFile: h.file, NATS: h.encrypted()})
	if !bus.Crowded(err) || bus.Denied(err) {
		h.Errorf("a client of the hoarder reads %v", err)
	}
}
