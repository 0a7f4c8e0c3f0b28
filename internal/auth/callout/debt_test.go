package callout

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// books are Connections with a clock of the test, and no server.
type books struct {
	*Connections
	t             *testing.T
	role, account string // of the user of connections
	clock         time.Time
}

func newBooks(t *testing.T) *books {
	b := &books{t: t, role: "agent", account: auth.Agents, clock: time.Unix(1e9, 0)}
	b.Connections = NewConnections(nil, func() time.Time { return b.clock }, slog.New(slog.DiscardHandler))
	return b
}

func (b *books) connection(cid uint64, family string, sent, heard int64) connection {
	return connection{
		CID: cid, User: b.role + ".acme.a." + family, Account: b.account, Start: time.Unix(1e9, 0),
		counts: counts{Sent: sent, Heard: heard},
	}
}

// dispatcher returns a connection of a dispatcher that has received got messages.
func (b *books) dispatcher(cid uint64, got int64) connection {
	return connection{
		CID: cid, User: "UKEY", Account: auth.TB, Start: time.Unix(1e9, 0), counts: counts{Sent: 1e9, Heard: got},
	}
}

// after lets time pass, lists connections, and expects the families that flood.
func (b *books) after(past time.Duration, want int, all ...connection) {
	b.t.Helper()
	b.clock = b.clock.Add(past)
	b.counted("s", all, b.clock)
	if got := b.flooding(); len(got) != want {
		b.t.Errorf("%d families flood, want %d", len(got), want)
	}
}

// Messages that dispatchers get are no flood, however many they are and whether they are answered or not. Others are,
// also over many connections that end before any is listed, and although the client has itself sent copies of answers.
func TestDebts(t *testing.T) {
	const second = time.Second
	t.Run("busy", func(t *testing.T) {
		b := newBooks(t)
		for i := range int64(1000) {
			b.after(second, 0, b.connection(1, "x", 40_000*i, 40_000*i), b.connection(2, "x", 60_000*i, 0),
				b.dispatcher(3, 30_000*i), b.dispatcher(4, 70_000*i))
		}
	})
	t.Run("listed later than sent", func(t *testing.T) {
		b := newBooks(t)
		for i := range int64(1000) {
			b.after(second, 0, b.connection(1, "x", 100_000*i, 0), b.dispatcher(3, 100_000*max(0, i-1)))
		}
	})
	t.Run("long ago", func(t *testing.T) { // it is older than this dispatcher
		b := newBooks(t)
		b.after(24*time.Hour, 0, b.connection(1, "x", 1e8, 0), b.dispatcher(3, 0))
		b.after(second, 0, b.connection(1, "x", 1e8, 0), b.dispatcher(3, 0))
	})
	t.Run("dispatchers not listed", func(t *testing.T) {
		b := newBooks(t)
		for i := range int64(100) { // but for each second time
			var of []connection
			if b.clock = b.clock.Add(2 * known); i%2 == 0 {
				of = append(of, b.dispatcher(3, 500_000*i))
			}
			b.after(second, 0, append(of, b.connection(1, "x", 500_000*i, 0))...)
		}
	})
	t.Run("refused", func(t *testing.T) {
		b := newBooks(t)
		b.after(second, 0, b.connection(1, "x", 400_000, 0), b.connection(2, "y", 1e6, 0), b.dispatcher(3, 1e6))
		b.after(second, 0, b.connection(1, "x", 800_000, 0), b.connection(2, "y", 1e6, 0), b.dispatcher(3, 1e6))
		b.after(second, 1, b.connection(1, "x", 1.4e6, 0), b.connection(2, "y", 1e6, 0), b.dispatcher(3, 1e6))
		b.after(second, 0, b.connection(1, "x", 1.4e6, 0), b.connection(2, "y", 1e6, 0), b.dispatcher(3, 1e6))
	})
	t.Run("slowly", func(t *testing.T) { // and beside calls
		b, found := newBooks(t), 0
		for i := range int64(100) {
			b.clock = b.clock.Add(second)
			b.counted("s", []connection{b.connection(1, "x", 16_000*i, 0), b.dispatcher(3, 1000*i)}, b.clock)
			found += len(b.flooding())
		}
		if found != 1 {
			t.Errorf("found %d times", found)
		}
	})
	t.Run("amplified", func(t *testing.T) {
		b := newBooks(t)
		b.after(second, 0, b.connection(1, "x", 400_000, 1e9), b.dispatcher(3, 100))
		b.after(second, 1, b.connection(1, "x", 920_000, 2e9), b.dispatcher(3, 200))
	})
	t.Run("large", func(t *testing.T) { // 200 MB a second, of which dispatchers get all of one, and little of the other
		b := newBooks(t)
		sent := func(cid uint64, family string, bytes int64) connection {
			l := b.connection(cid, family, 400, 400)
			l.SentBytes = bytes
			return l
		}
		got := func(bytes int64) connection {
			l := b.dispatcher(3, 400)
			l.HeardBytes = bytes
			return l
		}
		for i := range int64(100) {
			b.after(second, 0, sent(1, "x", i*200e6), got(i*200e6))
		}
		for i := range int64(10) { // a dispatcher's connection is closed now and then
			b.after(30*second, 0, sent(1, "x", 20e9+i*200e6), got(20e9))
		}
		b.after(second, 0, sent(1, "x", 22e9), sent(2, "y", 400e6), got(20e9)) // y is an old connection
		b.after(second, 0, sent(1, "x", 22e9), sent(2, "y", 800e6), got(20e9+50e6))
		b.after(second, 1, sent(1, "x", 22e9), sent(2, "y", 1200e6), got(20e9+100e6))
	})
	t.Run("executor", func(t *testing.T) { // of 30,000 calls a second, which runs 5,000 more
		b := newBooks(t)
		b.role, b.account = "executor", auth.Exec
		for i := range int64(1000) {
			b.after(second, 0, b.connection(1, "x", 93_000*i, 30_000*i))
		}
		b.after(second, 1, b.connection(1, "x", 93_000_000+700_000, 30_000_000))
	})
	t.Run("over many", func(t *testing.T) {
		b := newBooks(t)
		b.counted("s", []connection{b.dispatcher(3, 0)}, b.clock)
		for i := range 100 {
			b.ended(fmt.Appendf(nil, `{"server":{"id":"s"},"client":{"id":%d,"user":"agent.acme.a.x","acc":"AGENTS",`+
				`"start":%q},"sent":{"msgs":10000},"received":{"msgs":10000}}`, 10+i, b.clock.Format(time.RFC3339)))
		}
		b.after(second, 1, b.dispatcher(3, 0))
		if len(b.open) != 1 || len(b.debts) > 0 {
			t.Errorf("%d are open, %d owe", len(b.open), len(b.debts))
		}
	})
}

// Doors and operators come in to AGENTS where agents do not any more.
func TestRoomForOthers(t *testing.T) {
	b, full := newBooks(t), 0
	for i := range auth.AgentConnections {
		p := auth.Principal{Role: auth.Agent, Family: fmt.Sprint("f", i%100)}
		if b.Admit(p, auth.Agents, "s", uint64(i)) != nil {
			full++
		}
	}
	if full != keptForOthers {
		t.Errorf("%d agents were refused, want %d", full, keptForOthers)
	}
	for i, role := range []auth.Role{auth.Gateway, auth.Operator} {
		if err := b.Admit(auth.Principal{Role: role, Family: "o"}, auth.Agents, "t", uint64(i)); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}
}

// When a server is gone, or has not let in whom dispatchers have, the family may come in again.
func TestConnectionsGone(t *testing.T) {
	b, p := newBooks(t), auth.Principal{Role: auth.Executor, Family: "f"}
	fill := func(server string) {
		t.Helper()
		for i := range 2 * FamilyConnections {
			if err := b.Admit(p, auth.Exec, server, uint64(i)); err != nil {
				t.Fatalf("%d at %s: %v", i, server, err)
			}
		}
		if b.Admit(p, auth.Exec, server, 1e6) == nil {
			t.Fatal("one too many")
		}
	}
	fill("s")
	b.after(100*time.Millisecond, 0) // those are just about to come in
	if b.Admit(p, auth.Exec, "s", 1e6) == nil {
		t.Fatal("one too many")
	}
	b.after(2*admitted, 0)
	fill("s")
	b.clock = b.clock.Add(2 * admitted)
	b.forget(func(at place) bool { return at.server != "new" }, b.clock)
	fill("new")
}

// A family is closed by what its clients leave unread in two lists in a row, and shut out if that goes on. Clients that
// read in between are not closed, and neither is a dispatcher.
func TestUnread(t *testing.T) {
	b := newBooks(t)
	waits := func(cid uint64, family string, bytes int64) connection {
		l := b.connection(cid, family, 0, 0)
		l.Pending = bytes
		return l
	}
	slow := b.dispatcher(9, 0)
	slow.Pending = 1 << 30
	list := func(want string, all ...connection) {
		t.Helper()
		all = append(all, slow, waits(8, "y", 30<<20))
		b.counted("s", all, b.clock)
		got := ""
		for _, at := range b.unread("s", all) {
			got += fmt.Sprint(at.cid, " ")
		}
		if got != want {
			t.Errorf("connections %q are closed, want %q", got, want)
		}
	}
	list("", waits(1, "x", 8<<20), waits(2, "x", 60<<20))
	list("", waits(1, "x", 90<<20), waits(2, "x", 20<<20))
	list("1 ", waits(1, "x", 90<<20), waits(2, "x", 1<<20), waits(3, "x", 99<<20))
	list("3 ", waits(2, "x", 1<<20), waits(3, "x", 423<<20))
	b.after(time.Second, 1, slow)
}
