package flow

import (
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Dropped counts and logs messages of one kind that a receiver drops because it cannot verify their sender. The zero
// value is ready to use. It is safe for concurrent use.
type Dropped struct {
	mu      sync.Mutex
	logged  bool // a message was logged within the last DropLogInterval
	more    int  // messages dropped since then
	subject string
}

// DropLogInterval is the shortest time between two log lines about dropped messages of one kind.
const DropLogInterval = time.Minute

// Note counts a dropped message. It logs the first one at once, and then at most one line per [DropLogInterval], with
// the number of further ones. why is the reason. If log is nil, it does nothing.
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
