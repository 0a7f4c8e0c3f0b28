package callout_test

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/callout"
)

// idle connects with a token, subscribes to the answers of p, and never reads them.
func (g *guarded) idle(p auth.Principal) {
	g.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "nats://"))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	err = conn.(*net.TCPConn).SetReadBuffer(4096)
	if err == nil {
		_, err = fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"auth_token\":%q}\r\nSUB %s> 1\r\nPING\r\n", p.Family,
			p.Answers())
	}
	line := ""
	for read := bufio.NewReader(conn); err == nil && !strings.HasPrefix(line, "PONG"); {
		line, err = read.ReadString('\n')
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// waiting returns for how many connections of a family bytes wait in the server, and how many bytes.
func (g *guarded) waiting(system *nats.Conn, family string) (n int, bytes int64) {
	g.t.Helper()
	msg, err := system.Request("$SYS.REQ.SERVER.PING.CONNZ", []byte(`{"auth":true}`), 5*time.Second)
	if err != nil {
		g.t.Fatal(err)
	}
	var l struct {
		Data struct {
			Connections []struct {
				User    string `json:"authorized_user"`
				Pending int64  `json:"pending_bytes"`
			} `json:"connections"`
		} `json:"data"`
	}
	if err := json.Unmarshal(msg.Data, &l); err != nil {
		g.t.Fatal(err)
	}
	for _, c := range l.Data.Connections {
		if u, ok := auth.ParseUser(c.User); ok && auth.RootOf(u.Family) == family && c.Pending > 0 {
			n++
			bytes += c.Pending
		}
	}
	return n, bytes
}

// fill publishes answers to the actor of p until more than the given number of bytes wait for its family.
func (g *guarded) fill(system, dispatcher *nats.Conn, p auth.Principal, bytes int64) {
	g.t.Helper()
	body := make([]byte, 100<<10)
	g.until("answers wait", func() bool {
		if err := dispatcher.Publish(p.Answers()+"x", body); err != nil {
			g.t.Fatal(err)
		}
		_, wait := g.waiting(system, p.Root())
		return wait > bytes
	})
}

// The connections of a family that do not read are closed until at most FamilyPending bytes wait in the server for the
// rest. The ones that read stay, and so do those of a family for which fewer bytes wait.
func TestUnreadBytesOfFamily(t *testing.T) {
	g := guard(t, `write_deadline: "5s"`, `write_deadline: "1m"`) // the server itself closes nothing
	g.callout()
	root := g.principal(auth.Agent, "agent://a", auth.NewID())
	less, err := root.Narrow(auth.Narrowing{Actor: "agent://a/sub"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	g.set(less.Family, less)
	other := g.principal(auth.Agent, "agent://b", auth.NewID())
	system, dispatcher := g.as(g.keys.System), g.as(g.keys.Dispatcher)
	reads := g.connect(nats.Token(root.Family))
	for range 6 {
		g.idle(root)
		g.idle(less)
		g.idle(other)
	}
	g.fill(system, dispatcher, root, 24<<20)
	g.fill(system, dispatcher, less, 48<<20)
	g.fill(system, dispatcher, other, 24<<20)
	for range 2 {
		open := callout.NewConnections(g.as(g.keys.System), time.Now, slog.New(slog.NewTextHandler(g.said, nil)))
		var running sync.WaitGroup
		running.Go(func() { open.Run(t.Context()) })
		t.Cleanup(running.Wait)
	}
	g.until("no more waits than may", func() bool {
		_, bytes := g.waiting(system, root.Family)
		return bytes <= callout.FamilyPending
	})
	if n, bytes := g.waiting(system, root.Family); bytes < callout.FamilyPending-8<<20 {
		t.Errorf("%d connections are left, for which %d bytes wait: too many were closed", n, bytes)
	}
	if n, bytes := g.waiting(system, other.Family); n != 6 || bytes <= 24<<20 {
		t.Errorf("of another family %d connections are left, for which %d bytes wait", n, bytes)
	}
	if err := reads.FlushTimeout(5 * time.Second); err != nil {
		t.Errorf("one that reads: %v", err)
	}
	if n := strings.Count(g.said.text(), "do not read"); n == 0 || n > 2 {
		t.Errorf("two dispatchers have said it %d times:\n%s", n, g.said.text())
	}
}
