package rpc

import (
	"log/slog"

	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// replyFilter counts the requests of callers that may not be answered where they name: an answer there could be taken
// for the answer to another caller.
type replyFilter struct {
	log *slog.Logger
	flow.Dropped
}

// answerTo returns where a request is answered; ok is false for one that is dropped.
func (s *replyFilter) answerTo(subject, reply, word string) (to string, ok bool) {
	if to, ok = subjects.AnswerTo(subject, reply, word); !ok {
		s.Note(s.log, "a request may be answered below tb.ans.<tenant>.<actor>. of its own subject only; clients of "+
			"Toolbus 0.1 ask otherwise", subject)
	}
	return to, ok
}
