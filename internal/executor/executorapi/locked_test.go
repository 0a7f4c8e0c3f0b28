package executorapi_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
)

// becomes waits until a board says what is wanted of a tool.
func (f *fixture) becomes(b *lock.Board, locked bool, want error) {
	f.T.Helper()
	for began := time.Now(); ; {
		l, err := b.Find(f.T.Context(), "echo", "")
		if errors.Is(err, want) && (l != nil) == locked {
			return
		}
		if time.Since(began) > 10*time.Second {
			f.T.Fatalf("%+v, %v: want locked %t, %v", l, err, locked, want)
		}
	}
}

// An executor knows the locks that its dispatcher knows, and no longer than that.
func TestLocksOfADispatcher(t *testing.T) {
	f := setup(t)
	f.locks = lock.NewBoard()
	stop := f.serve("d")
	c, board := f.client("default"), lock.NewBoard()
	c.WaitFor(100 * time.Millisecond)
	bustest.Run(t, func(ctx context.Context) { c.KeepLocks(ctx, board) })
	f.becomes(board, false, lock.ErrStale) // as its dispatcher
	all := []envelope.Lock{{LockTarget: envelope.LockTarget{All: true}}}
	f.locks.Learn(all, time.Now().Add(-700*time.Millisecond))
	for {
		if _, age, err := board.Known(); err == nil {
			if age < 700*time.Millisecond {
				t.Errorf("known for %s, and its dispatcher for 700 ms", age)
			}
			break
		}
		if _, _, err := f.locks.Known(); err != nil { // the machine was too slow: once more
			f.locks.Learn(all, time.Now().Add(-700*time.Millisecond))
		}
	}
	f.locks.Learn(all, time.Now())
	f.becomes(board, true, nil)
	f.becomes(board, false, lock.ErrStale) // its dispatcher is suspended, or does not reach the bucket
	f.locks.Learn(nil, time.Now())
	f.becomes(board, false, nil)
	stop()
	f.locks.Learn(nil, time.Now().Add(time.Minute)) // a dispatcher that does not answer helps nobody
	f.becomes(board, false, lock.ErrStale)
}

// far is a dialer of connections to a server that is half a round trip away.
type far struct {
	ctx  context.Context
	half time.Duration
}

func (f far) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	near, remote := net.Pipe()
	carry := func(to io.WriteCloser, from io.Reader) {
		packets := make(chan packet, 1000)
		go func() {
			defer close(packets)
			for {
				buf := make([]byte, 64<<10)
				n, err := from.Read(buf)
				if err != nil {
					return
				}
				packets <- packet{buf[:n], time.Now().Add(f.half)}
			}
		}()
		for p := range packets {
			timer.Sleep(f.ctx, time.Until(p.due))
			_, _ = to.Write(p.data) // if it is closed, both ends are
		}
		_ = to.Close()
	}
	go carry(c, remote)
	go carry(remote, c)
	return near, nil
}

type packet struct {
	data []byte
	due  time.Time
}

// R7: at a round trip of 600 ms to its dispatcher, whose knowledge is 200 ms old, an executor always knows the locks
// within the time that the start of a call waits for them.
func TestLocksOverALongWay(t *testing.T) {
	f := setup(t)
	f.locks = lock.NewBoard()
	defer f.serve("d")()
	nc, err := nats.Connect(f.Srv.URL, nats.SetCustomDialer(far{t.Context(), 280 * time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	inbox, err := (&rpc.Control{NC: nc}).Inbox("default", "e")
	if err != nil {
		t.Fatal(err)
	}
	c, board := f.client("default"), lock.NewBoard()
	c.Inbox = inbox
	bustest.Run(t, func(ctx context.Context) { c.KeepLocks(ctx, board) })
	bustest.Run(t, func(ctx context.Context) {
		for timer.Sleep(ctx, 10*time.Millisecond) {
			f.locks.Learn(nil, time.Now().Add(-200*time.Millisecond))
		}
	})
	f.becomes(board, false, nil)
	watch := timertest.StartStallMeter()
	defer watch.End()
	var late time.Duration // when the locks were last known
	for range 50 {
		_, err := board.Find(t.Context(), "echo", "")
		switch now := watch.Late(); {
		case err == nil:
			late = now
		case now-late < 100*time.Millisecond: // otherwise this machine has delayed the requests or the answers
			t.Error(err)
		}
		timer.Sleep(t.Context(), 27*time.Millisecond)
	}
}

// logged is a writer of a logger. A line that finds no room is dropped.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default:
	}
	return len(line), nil
}

// awaits waits for a line with a text, and fails if one comes before that has the code of a call.
func (l logged) awaits(t *testing.T, text string) {
	t.Helper()
	for line := range l {
		if strings.Contains(line, "S-TOOL") {
			t.Errorf("a code of calls: %s", line)
		}
		if strings.Contains(line, text) {
			return
		}
	}
}

// An executor logs that the locks are not known, with what to do, and that they are known again.
func TestUnknownLocksAreLogged(t *testing.T) {
	f := setup(t)
	f.locks = lock.NewBoard()
	stop := f.serve("d") // knows no locks itself, so it refuses to name them
	defer stop()
	c, lines := f.client("default"), make(logged, 100)
	c.Log = slog.New(slog.NewTextHandler(lines, nil))
	bustest.Run(t, func(ctx context.Context) { c.KeepLocks(ctx, lock.NewBoard()) })
	lines.awaits(t, "no call starts until one does")
	f.locks.Learn(nil, time.Now().Add(time.Minute))
	lines.awaits(t, "the safety locks are known again")
}
