package executor

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// question opens a question to the caller of the job. It drops other messages than answers to this attempt.
func (j *job) question(take func(result jsontext.Value)) (id string, close func()) {
	key := j.key()
	return j.executor.Question(func(body []byte) {
		var a call.Answer
		if err := format.Unmarshal(format.Message, body, &a); err == nil && a.ID == key.ID && a.Attempt == key.N {
			take(a.Result)
		}
	})
}
