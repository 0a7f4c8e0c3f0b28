package workqueue_test

import (
	"bytes"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// largest is the size of the largest work message.
const largest = 577 << 10

// wire reads what a client and its server write to each other, and adds up how many bytes the pull requests of the
// client may bring.
type wire struct {
	t *testing.T

	mu    sync.Mutex
	subs  map[string]string // inbox by sid
	asked map[string]*asked // by inbox
	most  int               // bytes that were requested at once
	alone int               // requests for a message of any size
}

// asked is a pull request.
type asked struct {
	Batch    int `json:"batch"`
	MaxBytes int `json:"max_bytes"`
}

func watch(t *testing.T) *wire {
	return &wire{t: t, subs: map[string]string{}, asked: map[string]*asked{}}
}

// Dial implements nats.CustomDialer.
func (w *wire) Dial(network, address string) (net.Conn, error) {
	c, err := net.DialTimeout(network, address, 10*time.Second)
	return &tapped{Conn: c, wire: w}, err
}

type tapped struct {
	net.Conn
	wire    *wire
	in, out protocol
}

func (c *tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.in.each(b[:n], c.wire.came)
	return n, err
}

func (c *tapped) Write(b []byte) (int, error) {
	c.out.each(b, c.wire.sent)
	return c.Conn.Write(b)
}

// protocol splits a stream of the NATS protocol into its commands.
type protocol struct{ rest []byte }

func (p *protocol) each(more []byte, take func(words []string, payload []byte)) {
	p.rest = append(p.rest, more...)
	for {
		line, after, ok := bytes.Cut(p.rest, []byte("\r\n"))
		if !ok {
			return
		}
		words, payload := strings.Fields(string(line)), []byte(nil)
		if strings.HasSuffix(words[0], "PUB") || strings.HasSuffix(words[0], "MSG") {
			size, _ := strconv.Atoi(words[len(words)-1])
			if len(after) < size+2 {
				return
			}
			payload, after = after[:size], after[size+2:]
		}
		take(words, payload)
		p.rest = after
	}
}

func (w *wire) sent(words []string, payload []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case words[0] == "SUB":
		w.subs[words[len(words)-1]] = words[1]
	case len(words) > 2 && strings.HasPrefix(words[1], "$JS.API.CONSUMER.MSG.NEXT."):
		a := &asked{}
		if err := json.Unmarshal(payload, a); err != nil {
			w.t.Error(err)
		}
		if a.MaxBytes == 0 {
			w.alone++
			a.MaxBytes = a.Batch * largest
		}
		w.asked[words[2]] = a
		sum := 0
		for _, a := range w.asked {
			sum += min(a.MaxBytes, a.Batch*largest)
		}
		w.most = max(w.most, sum)
	}
}

func (w *wire) came(words []string, payload []byte) {
	if !strings.HasSuffix(words[0], "MSG") {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	inbox := w.subs[words[2]]
	a := w.asked[inbox]
	if a == nil {
		return
	}
	a.Batch--
	a.MaxBytes -= len(words[1]) + len(words[3]) + len(payload)
	if a.Batch == 0 || a.MaxBytes <= 0 || bytes.HasPrefix(payload, []byte("NATS/1.0 4")) {
		delete(w.asked, inbox)
	}
}
