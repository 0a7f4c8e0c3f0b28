package rpc

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
)

// wire is a connection that says what it is given.
type wire struct {
	net.Conn
	r io.Reader
}

func (w wire) Read(p []byte) (int, error) { return w.r.Read(p) }

// piecemeal reads a few bytes at once.
type piecemeal struct {
	r    io.Reader
	rand *rand.Rand
}

func (m piecemeal) Read(p []byte) (int, error) { return m.r.Read(p[:min(len(p), 1+m.rand.IntN(200))]) }

// What is dropped is gone as if the server had not sent it, and the rest is there byte by byte, however it comes.
func TestSieve(t *testing.T) {
	body := strings.Repeat("MSG drop.y 1 3\r\n", 10_000) // which is no head of a message
	parts := []struct {
		text string
		drop bool
	}{
		{`INFO {"server_id":"` + strings.Repeat("x", readSize) + "\"}\r\n", false},
		{"PONG\r\n", false},
		{"MSG keep.a 1 5\r\nhello\r\n", false},
		{"MSG drop.a 1 5\r\nhello\r\n", true},
		{"MSG drop.a 1 reply.to 0\r\n\r\n", true},
		{"HMSG drop.b 2 reply.to 12 15\r\nNATS/1.0\r\n\r\nabc\r\n", true},
		{"HMSG take.a 2 reply.to 12 15\r\nNATS/1.0\r\n\r\nabc\r\n", true},
		{"MSG take.b 1 160000\r\n" + body + "\r\n", true},
		{"HMSG take.c 1 12 12\r\nNATS/1.0\r\n\r\n\r\n", true},
		{"HMSG trim.a 1 12 160012\r\nNATS/1.0\r\n\r\n" + body + "\r\n", true},
		{"MSG trim.b 1 3\r\nabc\r\n", true},
		{"PING\r\n", false},
		{"HMSG keep.b 2 reply.to 12 15\r\nNATS/1.0\r\n\r\nabc\r\n", false},
		{"MSG keep.c 1 160000\r\n" + body + "\r\n", false},
		{"MSG drop.c 1 160000\r\n" + body + "\r\n", true},
		{"MSG drop.d 1 x3\r\n", false}, // no server says that: it is for the library to complain
		{"-ERR 'x'\r\n", false},
		{"MSG keep.d 1 0\r\n\r\n", false},
	}
	var all, want bytes.Buffer
	for _, p := range parts {
		all.WriteString(p.text)
		if !p.drop {
			want.WriteString(p.text)
		}
	}
	dropped, taken := 0, 0
	judge := func(subject []byte, size int) FilterAction {
		if size > 12+len(body) {
			t.Errorf("%s has %d bytes", subject, size)
		}
		switch {
		case bytes.HasPrefix(subject, []byte("drop.")):
			dropped++
			return FilterDrop
		case bytes.HasPrefix(subject, []byte("take.")):
			return FilterTake
		case bytes.HasPrefix(subject, []byte("trim.")):
			return FilterTakeHead
		}
		return FilterPass
	}
	take := func(m FilteredMessage) {
		taken++
		switch m.Subject {
		case "take.a":
			if m.Reply != "reply.to" || string(m.Header) != "NATS/1.0\r\n\r\n" || string(m.Body) != "abc" {
				t.Errorf("%+v", m)
			}
		case "take.b":
			if m.Reply != "" || m.Header != nil || string(m.Body) != body {
				t.Errorf("%q, %q, %d bytes", m.Reply, m.Header, len(m.Body))
			}
		case "trim.a", "trim.b":
			if header := string(m.Header); !m.Trimmed || m.Body != nil || header != "" && header != "NATS/1.0\r\n\r\n" {
				t.Errorf("%+v", m)
			}
		case "take.c":
			if len(m.Body) != 0 || len(m.Header) != 12 {
				t.Errorf("%+v", m)
			}
		}
	}
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		var in io.Reader = bytes.NewReader(all.Bytes())
		if seed == 0 {
			in = piecemeal{in, r}
		}
		c, got := NewFilterConn(wire{r: in}, judge, take), bytes.Buffer{}
		for {
			p := make([]byte, 1+r.IntN(3*readSize>>(seed*2)))
			n, err := c.Read(p)
			if got.Write(p[:n]); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				break
			}
			if n == 0 {
				t.Fatal("nothing was read, and that is no error")
			}
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("seed %d: read %d bytes, want %d: %.300q", seed, got.Len(), want.Len(), &got)
		}
	}
	if dropped != 8*4 || taken != 8*5 {
		t.Errorf("%d dropped, and %d taken", dropped, taken)
	}
}

// What somebody has put behind the greeting in the clear is not taken for what comes encrypted.
func TestUpgrade(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _ = errors.Join(ours.Close(), theirs.Close()) }()
	go func() { _, _ = io.WriteString(theirs, "INFO {}\r\nPONG\r\nMSG x 1 0\r\n\r\n") }() // until the end of the test
	c := NewFilterConn(ours, func([]byte, int) FilterAction { return FilterPass }, nil)
	p := make([]byte, 1000)
	if n, err := c.Read(p); string(p[:n]) != "INFO {}\r\n" {
		t.Fatalf("%q, %v", p[:n], err)
	}
	c.Upgrade(&tls.Config{ServerName: "x"})
	go func() {
		_, _ = io.ReadFull(theirs, make([]byte, 5)) // the head of a handshake
		_ = theirs.Close()
	}()
	if n, err := c.Read(p); n != 0 || err == nil {
		t.Errorf("%q came in the clear", p[:n])
	}
}

// A borrowed message is whole, its memory is used again once it is given back, and not before; what is taken otherwise
// never is.
func TestBorrow(t *testing.T) {
	const size = large
	var text bytes.Buffer
	for n := range 3 * maxSpare {
		fmt.Fprintf(&text, "MSG borrow.%d 1 %d\r\n%s\r\n", n, size, strings.Repeat(string(rune('a'+n%26)), size))
		fmt.Fprintf(&text, "MSG take.%d 1 %d\r\n%s\r\n", n, size, strings.Repeat(string(rune('A'+n%26)), size))
	}
	var held []FilteredMessage
	borrowed, memory := 0, map[*byte]bool{}
	c := NewFilterConn(wire{r: bytes.NewReader(text.Bytes())}, func(subject []byte, _ int) FilterAction {
		if bytes.HasPrefix(subject, []byte("borrow")) {
			return FilterBorrow
		}
		return FilterTake
	}, func(m FilteredMessage) {
		if strings.HasPrefix(m.Subject, "borrow") {
			borrowed++
			memory[&m.Body[0]] = true
		}
		if borrowed%3 == 0 { // one taken otherwise is not given back by that
			m.Free()
		}
		if borrowed%3 != 0 || strings.HasPrefix(m.Subject, "take") {
			held = append(held, m)
		}
	})
	if _, err := c.Read(make([]byte, 1000)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	for _, m := range held {
		_, n, _ := strings.Cut(m.Subject, ".")
		number, err := strconv.Atoi(n)
		want := byte('a' + number%26)
		if strings.HasPrefix(m.Subject, "take") {
			want = byte('A' + number%26)
		}
		if err != nil || len(m.Body) != size || bytes.Count(m.Body, []byte{want}) != size {
			t.Errorf("%s is %.3q", m.Subject, m.Body)
		}
	}
	if len(held) != 5*maxSpare || len(memory) > 2*maxSpare+1 {
		t.Errorf("%d messages are held, and %d buffers were used for %d", len(held), len(memory), borrowed)
	}
}

func BenchmarkSieve(b *testing.B) {
	flood := bytes.Repeat([]byte("HMSG tb.call.default.flooder.echo 1 _INBOX.default.flooder.word 44 45\r\n"+
		"NATS/1.0\r\nContent-Type: application/json\r\n\r\nx\r\n"), 1000)
	p := make([]byte, 32<<10)
	for b.Loop() {
		c := NewFilterConn(wire{r: bytes.NewReader(flood)}, func([]byte, int) FilterAction { return FilterTake },
			func(FilteredMessage) {})
		if _, err := c.Read(p); !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
	}
}
