package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReadFrame(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want frame
	}{
		{"PING\r\n", frame{verb: "PING"}},
		{"+OK\r\n", frame{verb: "+OK"}},
		{"SUB a.> 1\r\n", frame{verb: "SUB"}},
		{"\r\n", frame{}},
		{"PUB a 3\r\nxyz\r\n", frame{verb: "PUB", subject: "a", body: []byte("xyz")}},
		{"pub a r 0\r\n\r\n", frame{verb: "PUB", subject: "a", reply: "r"}},
		{"HPUB a r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
			frame{verb: "HPUB", subject: "a", reply: "r", headers: []byte("NATS/1.0\r\n\r\n"), body: []byte("hi")}},
		{"MSG a 7 2\r\n\r\n\r\n", frame{verb: "MSG", subject: "a", body: []byte("\r\n")}},
		{"MSG a 7 r 2\r\nhi\r\n", frame{verb: "MSG", subject: "a", reply: "r", body: []byte("hi")}},
		{"HMSG a 7 12 12\r\nNATS/1.0\r\n\r\n\r\n", frame{verb: "HMSG", subject: "a", headers: []byte("NATS/1.0\r\n\r\n")}},
	} {
		f, err := readFrame(bufio.NewReaderSize(strings.NewReader(tc.in), 16))
		if err != nil {
			t.Errorf("%q: %v", tc.in, err)
			continue
		}
		if string(f.raw) != tc.in {
			t.Errorf("%q: raw is %q", tc.in, f.raw)
		}
		f.raw = nil
		equal := cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) })
		if diff := cmp.Diff(tc.want, *f, cmp.AllowUnexported(frame{}), equal); diff != "" {
			t.Errorf("%q: %s", tc.in, diff)
		}
	}
}

func TestReadFrameRefuses(t *testing.T) {
	for _, in := range []string{
		"PUB a\r\n", "PUB a b c d 1\r\n", "PUB a x\r\n", "PUB a -1\r\n", "PUB a 99999999999\r\n", "HPUB a 5 3\r\nabc\r\n",
		"PUB a 1\r\nxyz", "MSG a 1\r\n", strings.Repeat("x", maxLine+1) + "\r\n",
	} {
		if f, err := readFrame(bufio.NewReader(strings.NewReader(in))); !errors.Is(err, errFrame) {
			t.Errorf("%.40q gives %v, %v", in, f, err)
		}
	}
	if _, err := readFrame(bufio.NewReader(strings.NewReader("PUB a 5\r\nxy"))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut payload gives %v", err)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("HPUB a r 12 14\r\nNATS/1.0\r\n\r\nhi\r\nPING\r\n"))
	f.Add([]byte("MSG a 7 r 2\r\nhi\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReaderSize(bytes.NewReader(in), 16)
		var out []byte
		for {
			fr, err := readFrame(r)
			if err != nil {
				break
			}
			kindOf(fr)
			out = append(out, fr.raw...)
		}
		if !bytes.HasPrefix(in, out) {
			t.Errorf("%q was read as %q", in, out)
		}
	})
}

func TestKinds(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want Kind
	}{
		{"PUB tb.call.t.a.x _INBOX.1 2\r\n{}\r\n", Request},
		{"PUB tb.svc.cancel.t.a _INBOX.1 2\r\n{}\r\n", Service},
		{"PUB $KV.calls.x.y.1.j _INBOX.1 2\r\n{}\r\n", Write},
		{"PUB $KV.pools.x.y _INBOX.1 2\r\n{}\r\n", Beat},
		{"PUB $JS.ACK.KV_calls.x.1.2.3.4.5 4\r\n+ACK\r\n", WorkAck},
		{"PUB $JS.API.INFO _INBOX.1 0\r\n\r\n", API},
		{"PUB tb.ctl.kill.x 0\r\n\r\n", Control},
		{"PUB tb.chunk.t.a.i.1.2 0\r\n\r\n", Chunk},
		{"PUB tb.audit.log.t.e.x 0\r\n\r\n", Audit},
		{"MSG _INBOX.a.b 1 30\r\n{\"stream\":\"KV_calls\", \"seq\":4}\r\n", PubAck},
		{"HMSG tb.ans.t.a.b 1 30 30\r\nNATS/1.0\r\nTb-Kind: outcome\r\n\r\n\r\n", Answer},
		{"MSG _INBOX.a.b 1 2\r\nhi\r\n", Delivery},
		{"MSG foo 1 2\r\nhi\r\n", Delivery},
		{"PUB foo 2\r\nhi\r\n", Other},
	} {
		f, err := readFrame(bufio.NewReader(strings.NewReader(tc.in)))
		if err != nil {
			t.Errorf("%q: %v", tc.in, err)
			continue
		}
		if got := kindOf(f); got != tc.want {
			t.Errorf("%q is %s, want %s", tc.in, got, tc.want)
		}
	}
}

// start returns a proxy for a server, and two connections: through the proxy, and direct.
func start(t *testing.T) (p *Proxy, through, direct *nats.Conn) {
	t.Helper()
	s := natstest.Start(t)
	p, err := Listen(strings.TrimPrefix(s.URL, "nats://"), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	direct = s.Connect(t)
	through, err = nats.Connect(p.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(through.Close)
	return p, through, direct
}

func TestPassesAndCuts(t *testing.T) {
	p, through, direct := start(t)
	sub, err := direct.SubscribeSync("foo")
	if err != nil {
		t.Fatal(err)
	}
	if err := direct.Flush(); err != nil {
		t.Fatal(err)
	}
	send := func() {
		t.Helper()
		if err := through.Publish("foo", []byte("hi")); err != nil {
			t.Fatal(err)
		}
		if _, err := sub.NextMsg(5 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	send()
	status := through.StatusChanged(nats.CONNECTED)
	p.Cut()
	<-status
	send()
	if got := p.Counts()[Other].Passed; got != 2 {
		t.Errorf("%d messages passed, want 2", got)
	}
}

func TestTrouble(t *testing.T) {
	for _, tc := range []struct {
		name string
		odds Odds
		want int // copies
	}{
		{"drop", Odds{Drop: 1}, 0},
		{"double", Odds{Double: 1}, 2},
		{"delay", Odds{Delay: 1, Most: 20 * time.Millisecond}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, through, direct := start(t)
			sub, err := direct.SubscribeSync(">")
			if err != nil {
				t.Fatal(err)
			}
			if err := direct.Flush(); err != nil {
				t.Fatal(err)
			}
			p.Set(Trouble{Request: tc.odds})
			if err := through.Publish("tb.call.t.a.x", nil); err != nil {
				t.Fatal(err)
			}
			got := 0
			if tc.odds.Delay == 0 { // the marker arrives after messages that are not delayed
				if err := through.Publish("end", nil); err != nil {
					t.Fatal(err)
				}
			}
			for tc.odds.Delay == 0 || got < tc.want {
				m, err := sub.NextMsg(5 * time.Second)
				if err != nil {
					t.Fatal(err)
				}
				if m.Subject == "end" {
					break
				}
				got++
			}
			if got != tc.want {
				t.Errorf("%d copies, want %d", got, tc.want)
			}
		})
	}
}

// TestLostAck checks the fault that matters most to the protocol: the write is stored, but its acknowledgement is lost.
func TestLostAck(t *testing.T) {
	p, through, direct := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	js, err := jetstream.New(direct)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	if err != nil {
		t.Fatal(err)
	}
	lossy, err := jetstream.New(through)
	if err != nil {
		t.Fatal(err)
	}
	p.Set(Trouble{PubAck: {Drop: 1}})
	once, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if _, err := lossy.Publish(once, "s.1", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("publish gives %v, want no answer", err)
	}
	if _, err := stream.GetMsg(ctx, 1); err != nil {
		t.Errorf("the write was not applied: %v", err)
	}
	if got := fmt.Sprint(p.Counts()[PubAck]); got != fmt.Sprint(Count{Dropped: 1}) {
		t.Errorf("counts are %v", got)
	}
}
