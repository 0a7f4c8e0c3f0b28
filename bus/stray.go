package bus

import (
	"log/slog"
	"strings"
	"sync"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// strays drops requests that may not be answered where they name, since an answer there could be taken for somebody
// else's. It says so once of each subject: to its sender nothing can be said.
type strays struct {
	log  *slog.Logger
	mu   sync.Mutex
	told map[string]bool
}

// maxStrays bounds of how many subjects it is said.
const maxStrays = 100

func newStrays(log *slog.Logger) *strays { return &strays{log: log, told: map[string]bool{}} }

// answerTo returns where a request is to be answered; ok is false for one that is dropped.
func (s *strays) answerTo(subject, reply, word string) (to string, ok bool) {
	if to, ok = subjects.AnswerTo(subject, reply, word); ok {
		return to, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.told) < maxStrays && !s.told[subject] {
		s.told[strings.Clone(subject)] = true
		s.log.Warn("request dropped: it may be answered below tb.ans.<tenant>.<actor>. of its own subject only; clients of "+
			"Toolbus 0.1 ask like that",
			"subject", subject, "reply", reply)
	}
	return "", false
}
