// Package flow counts the core messages that a receiver does not act on, since nothing proves who has sent them.
// Start reading at dropped.go.
package flow

import (
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Dropped counts dropped messages of one kind. The zero value is ready; it is safe for concurrent use.
type Dropped struct {
	mu      sync.Mutex
	logged  bool // a line, within the last Interval
	more    int  // dropped since then
	subject string
}

// DropLogInterval is how often dropped messages of a kind are logged.
const DropLogInterval = time.Minute

// Note counts a message that is dropped for a reason. It logs the first one at once, and then at most one line for each
// [Interval], with the number of further ones. A nil logger discards.
func (m *Dropped) Note(log *slog.Logger, why, subject string) {
	if log == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.logged {
		m.more++
		m.subject = strings.Clone(subject) // it may share the memory of a large message
		return
	}
	m.logged = true
	log.Warn("message dropped: "+why, "subject", subject)
	time.AfterFunc(DropLogInterval, func() { m.tell(log, why) })
}

// tell logs how many messages were dropped since the last line.
func (m *Dropped) tell(log *slog.Logger, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.more == 0 {
		m.logged = false
		return
	}
	log.Warn("messages dropped: "+why, "messages", m.more, "last_subject", m.subject)
	m.more = 0
	time.AfterFunc(DropLogInterval, func() { m.tell(log, why) })
}
