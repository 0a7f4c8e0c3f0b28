package history

import (
	"crypto/rand"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Mailbox receives the answers to requests that a caller publishes without the client library.
type Mailbox struct {
	prefix string

	mu      sync.Mutex
	next    int
	waiting map[string]chan *nats.Msg // by reply subject
}

// NewMailbox returns the Mailbox of an actor. Its subscription ends with the connection.
func NewMailbox(nc *nats.Conn, tenant, actor string) (*Mailbox, error) {
	b := &Mailbox{prefix: subjects.Answers(tenant, actor) + rand.Text() + ".", waiting: map[string]chan *nats.Msg{}}
	_, err := nc.Subscribe(b.prefix+"*", func(msg *nats.Msg) { // ends with the connection
		b.mu.Lock()
		defer b.mu.Unlock()
		select {
		case b.waiting[msg.Subject] <- msg:
		default: // no receiver, or its buffer is full
		}
	})
	return b, err
}

// Open returns a reply subject and the channel of its messages, which receives until drop is called.
func (b *Mailbox) Open() (inbox string, answers <-chan *nats.Msg, drop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	inbox = b.prefix + strconv.Itoa(b.next)
	ch := make(chan *nats.Msg, 64)
	b.waiting[inbox] = ch
	return inbox, ch, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waiting, inbox)
	}
}
