package attack

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
)

// rawOptions says where and as whom [rawDial] connects.
type rawOptions struct {
	url   string        // nats:// or tls://, host and port; of several, the first
	tls   *tls.Config   // nil speaks in the clear
	token string        // auth_token of the CONNECT; "" sends none
	key   nkeys.KeyPair // signs the nonce, in place of a token; may be nil
	name  string        // of the connection
}

// rawConn is a NATS connection of an attacker: this file writes its bytes and parses the answers by hand. Tests that
// attack use it, and neither nats.go nor a parser of the product, so that a mistake of those cannot hide an attack.
// It may be used concurrently.
type rawConn struct {
	conn net.Conn
	read *bufio.Reader

	writing sync.Mutex

	mu       sync.Mutex
	sids     int
	subs     map[string]string // subject by sid
	messages []rawMsg          // all that came
	refused  []string          // the text of each -ERR
	pings    int               // PONGs that came
	ended    error             // why the connection has ended; nil while it lasts
	changed  chan struct{}     // closed and replaced with each change
	done     chan struct{}     // closed when nothing reads any more
}

// rawMsg is a MSG or an HMSG. Header is the whole block, from NATS/1.0 to the empty line, as it came; nil for a MSG.
type rawMsg struct {
	to      string // the subject of the subscription
	subject string
	reply   string
	header  []byte
	body    []byte
}

// rawTime bounds what a test waits for.
const rawTime = time.Minute

var errNothing = errors.New("nothing came")

// rawDial connects, and reads until the test ends.
func rawDial(t testing.TB, o rawOptions) *rawConn {
	t.Helper()
	c, err := rawConnect(o)
	if err != nil {
		t.Fatal(err)
	}
	go c.listen()
	t.Cleanup(func() { _ = c.conn.Close(); <-c.done })
	return c
}

// rawConnect connects and returns once the server has taken the CONNECT. Nothing reads the connection: run listen, or
// leave it unread.
func rawConnect(o rawOptions) (c *rawConn, err error) {
	first, _, _ := strings.Cut(o.url, ",")
	at, err := url.Parse(first)
	if err != nil {
		return nil, err
	}
	conn, err := net.DialTimeout("tcp", at.Host, rawTime)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	c = &rawConn{subs: map[string]string{}, changed: make(chan struct{}), done: make(chan struct{})}
	_ = conn.SetDeadline(time.Now().Add(rawTime))
	c.conn, c.read = conn, bufio.NewReader(conn)
	info, err := c.line()
	if err != nil {
		return nil, err
	}
	if o.tls != nil {
		c.conn = tls.Client(conn, o.tls) // the handshake is made with the first byte
		c.read = bufio.NewReader(c.conn)
	}
	hello, err := o.hello(info)
	if err != nil {
		return nil, err
	}
	if err := c.send(hello + "PING\r\n"); err != nil {
		return nil, err
	}
	line, err := c.line()
	if err == nil && line != "PONG" {
		err = fmt.Errorf("the server says %s", line)
	}
	_ = conn.SetDeadline(time.Time{})
	return c, err
}

// hello is the CONNECT that answers an INFO.
func (o rawOptions) hello(info string) (string, error) {
	who := `"auth_token":` + strconv.Quote(o.token)
	if o.key != nil {
		_, nonce, _ := strings.Cut(info, `"nonce":"`)
		nonce, _, _ = strings.Cut(nonce, `"`)
		public, err := o.key.PublicKey()
		if err != nil {
			return "", err
		}
		signed, err := o.key.Sign([]byte(nonce))
		if err != nil {
			return "", err
		}
		who = fmt.Sprintf(`"nkey":%q,"sig":%q`, public, base64.RawURLEncoding.EncodeToString(signed))
	}
	return fmt.Sprintf(`CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"lang":"raw",`+
		`"version":"0","protocol":1,"name":%q,%s}`+"\r\n", o.name, who), nil
}

func (c *rawConn) line() (string, error) {
	line, err := c.read.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

// send writes bytes as they are.
func (c *rawConn) send(text string) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := io.WriteString(c.conn, text)
	return err
}

// publish sends a PUB, or an HPUB with a block of headers that may be any bytes. [rawHeader] makes a usual one.
func (c *rawConn) publish(subject, reply, header, body string) error {
	return c.send(rawPublish(subject, reply, header, body))
}

func rawPublish(subject, reply, header, body string) string {
	if reply != "" {
		reply += " "
	}
	if header == "" {
		return fmt.Sprintf("PUB %s %s%d\r\n%s\r\n", subject, reply, len(body), body)
	}
	return fmt.Sprintf("HPUB %s %s%d %d\r\n%s%s\r\n", subject, reply, len(header), len(header)+len(body), header, body)
}

// rawHeader is a block of header lines, each as it stands.
func rawHeader(lines ...string) string {
	return "NATS/1.0\r\n" + strings.Join(append(lines, "", ""), "\r\n")
}

// subscribe subscribes to a subject. Messages on it are in what [rawConn.received] returns from the next flush on.
func (c *rawConn) subscribe(subject string) error {
	c.mu.Lock()
	c.sids++
	sid := strconv.Itoa(c.sids)
	c.subs[sid] = subject
	c.mu.Unlock()
	return c.send("SUB " + subject + " " + sid + "\r\n")
}

// flush returns when the server has taken everything that was sent, and what it said of it has come.
func (c *rawConn) flush() error {
	c.mu.Lock()
	want := c.pings + 1
	c.mu.Unlock()
	if err := c.send("PING\r\n"); err != nil {
		return err
	}
	return c.until(func() bool { return c.pings >= want })
}

// until waits for a condition, which is called with the connection locked.
func (c *rawConn) until(ok func() bool) error { return c.within(rawTime, ok) }

func (c *rawConn) within(most time.Duration, ok func() bool) error {
	late := time.After(most)
	for {
		c.mu.Lock()
		done, ended, changed := ok(), c.ended, c.changed
		c.mu.Unlock()
		switch {
		case done:
			return nil
		case ended != nil:
			return ended
		}
		select {
		case <-changed:
		case <-late:
			return fmt.Errorf("%w within %s", errNothing, most)
		}
	}
}

// await returns the first message for which is returns true, also of those that have come already.
func (c *rawConn) await(is func(rawMsg) bool) (rawMsg, error) { return c.awaitFor(rawTime, is) }

func (c *rawConn) awaitFor(most time.Duration, is func(rawMsg) bool) (m rawMsg, err error) {
	at := 0
	err = c.within(most, func() bool {
		for ; at < len(c.messages); at++ {
			if is(c.messages[at]) {
				m = c.messages[at]
				return true
			}
		}
		return false
	})
	return m, err
}

// received returns the messages that have come for which is returns true.
func (c *rawConn) received(is func(rawMsg) bool) (all []rawMsg) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.messages {
		if is(m) {
			all = append(all, m)
		}
	}
	return all
}

// count returns how many messages have come on a subject. Callers hold c.mu.
func (c *rawConn) count(subject string) (n int) {
	for _, m := range c.messages {
		if m.subject == subject {
			n++
		}
	}
	return n
}

// errors returns the text of each -ERR that has come.
func (c *rawConn) errors() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.refused...)
}

// listen reads until the connection ends.
func (c *rawConn) listen() {
	defer close(c.done)
	for {
		err := c.next()
		c.mu.Lock()
		c.ended = err
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// next reads one thing that the server says.
func (c *rawConn) next() error {
	line, err := c.line()
	if err != nil {
		return err
	}
	op, rest, _ := strings.Cut(line, " ")
	switch op {
	case "PING":
		return c.send("PONG\r\n")
	case "PONG":
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pings++
	case "-ERR":
		c.mu.Lock()
		defer c.mu.Unlock()
		c.refused = append(c.refused, strings.Trim(rest, "'"))
	case "MSG", "HMSG":
		return c.message(op == "HMSG", strings.Fields(rest))
	}
	return nil
}

// message reads what follows a line: subject, sid, perhaps a reply, for an HMSG the length of the header, the length.
func (c *rawConn) message(header bool, at []string) error {
	m, sizes := rawMsg{subject: at[0]}, 1
	if header {
		sizes = 2
	}
	if len(at) == 3+sizes {
		m.reply = at[2]
	}
	whole, err := strconv.Atoi(at[len(at)-1])
	if err != nil {
		return err
	}
	data := make([]byte, whole+2) // with the end of the line
	if _, err := io.ReadFull(c.read, data); err != nil {
		return err
	}
	m.body = data[:whole]
	if header {
		size, err := strconv.Atoi(at[len(at)-2])
		if err != nil {
			return err
		}
		m.header, m.body = data[:size], data[size:whole]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m.to = c.subs[at[1]]
	c.messages = append(c.messages, m)
	return nil
}

// values returns what each header line of that name says, in their order: there may be several.
func (m rawMsg) values(name string) (all []string) {
	for line := range bytes.SplitSeq(m.header, []byte("\r\n")) {
		if n, v, ok := bytes.Cut(line, []byte(":")); ok && string(n) == name {
			all = append(all, strings.TrimSpace(string(v)))
		}
	}
	return all
}
