package rpc

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// executorReplies receives the answers of executors to a dispatcher, and delivers each to the request with its reply
// token. The zero value is ready to use. It is safe for concurrent use.
type executorReplies struct {
	mu      sync.Mutex
	inbox   string // prefix of the reply subjects, for executors of earlier builds
	waiting map[string]waiter
}

// waiter is a request that waits for an answer of a pool's executors.
type waiter struct {
	pool   string
	answer chan *nats.Msg
}

// open creates a reply token, stores it in word, and returns the channel that receives the first answer of the pool
// with this token. The caller must call close with the token.
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

// listen subscribes to the answers until the connection is closed. The caller holds e.mu.
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
		return // executors of all pools receive the request; the server permits only the sender's own pool in the subject
	}
	select {
	case w.answer <- msg:
	default: // no request waits, or it has an answer already
	}
}
