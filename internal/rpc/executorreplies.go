package rpc

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// executorReplies hears what executors answer to a dispatcher, and tells whoever waits under the word of the answer.
// The zero value hears nothing yet; it is safe for concurrent use.
type executorReplies struct {
	mu      sync.Mutex
	inbox   string // of executors of earlier builds
	waiting map[string]waiter
}

// waiter waits for an answer of a pool's executors.
type waiter struct {
	pool   string
	answer chan *nats.Msg
}

// open waits for an answer of a pool under a word, which it makes. Close it when done.
func (e *executorReplies) open(nc *nats.Conn, pool string, word *string) (<-chan *nats.Msg, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting == nil {
		if err := e.listen(nc); err != nil {
			return nil, err
		}
	}
	*word = rand.Text()
	answer := make(chan *nats.Msg, 1)
	e.waiting[*word] = waiter{pool, answer}
	return answer, nil
}

func (e *executorReplies) close(word string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.waiting, word)
}

// listen subscribes for as long as the connection lives. Callers hold e.mu.
func (e *executorReplies) listen(nc *nats.Conn) error {
	inbox := nc.NewInbox() + "."
	for _, subject := range []string{subjects.ExecutorReplyWildcard, inbox + "*"} {
		if _, err := nc.Subscribe(subject, e.hear); err != nil {
			return fmt.Errorf("listen to executors: %w", err)
		}
	}
	e.inbox, e.waiting = inbox, map[string]waiter{}
	return nil
}

func (e *executorReplies) hear(msg *nats.Msg) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.waiting[msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:]]
	if pool, _, _, err := subjects.ParseExecutorReply(msg.Subject); err == nil && pool != w.pool {
		return // executors of all pools hear what is asked, and the server knows which one answers
	}
	select {
	case w.answer <- msg:
	default: // nobody waits, or there was one before
	}
}
