package rpc

import (
	"log/slog"

	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// replyFilter checks the reply subjects of requests, and counts and logs the requests with one that is not permitted.
// An answer on such a subject could be taken for the answer to another caller.
type replyFilter struct {
	log *slog.Logger
	flow.Dropped
}

// answerTo returns the subject for the answer to a request. ok is false if the request must be dropped.
func (s *replyFilter) answerTo(subject, reply, word string) (to string, ok bool) {
	if to, ok = subjects.AnswerTo(subject, reply, word); !ok {
		s.Note(s.log, "a request may be answered below tb.ans.<tenant>.<actor>. of its own subject only; clients of "+
			"Toolbus 0.1 ask otherwise", subject)
	}
	return to, ok
}
