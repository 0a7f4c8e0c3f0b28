package executor

import (
	"fmt"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// outside returns the error of a run that reported a write outside the write targets of its call, or nil. It replaces
// the error that the tool itself reported, which may permit a further run.
func (j *job) outside(writes []call.ReportedWrite, reported *envelope.Error) *envelope.Error {
	for _, w := range writes {
		if len(j.writeTargets) == 0 || j.writeTargets.Allow(w.Target) {
			continue
		}
		message := fmt.Sprintf("the tool %q wrote to %.200q, and may write only to %.500s", j.state.Tool, w.Target,
			strings.Join(j.writeTargets, ", "))
		fault := envelope.NewError(envelope.CodeWriteTarget, message).WithEffect(envelope.EffectApplied)
		if reported != nil {
			fault = fault.WithCause(fmt.Sprintf("%s: %s", reported.Code, reported.Message))
		}
		return fault
	}
	return nil
}
