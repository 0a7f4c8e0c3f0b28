package dispatcher

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
)

// notReference returns the refusal of a text that does not parse as the reference of a call.
func notReference(text string) *envelope.Error {
	if strings.HasPrefix(text, audit.GatePrefix) {
		return envelope.NewError(envelope.CodeMalformed, "this is the record of a refusal, not the reference of a call").
			WithFix("`toolbus why ID` explains it")
	}
	e := envelope.NewError(envelope.CodeMalformed, "the reference is not of the form <tool>.<id>").
		WithFix("give the reference that the call printed, or that its acceptance named; of a call id " +
			"`toolbus audit replay --call ID` shows it to auditors and operators; an idempotency key names no call here: " +
			"call again with that key, the same tool and input, which joins the call or returns its stored outcome, with " +
			"its reference")
	return withRecord(e, text)
}

// unknownCall returns the refusal of a reference of which the sender may know no call.
func unknownCall(ref string) *envelope.Error {
	return withRecord(envelope.NewError(envelope.CodeNotFound, fmt.Sprintf("no call %q is known to you", ref)), ref)
}

// logEvent matches the id of an event of the call log, see [call.Position.EventID]. The id of a call is longer.
var logEvent = regexp.MustCompile(`^calls(_[0-9]+)?\.([0-9]{1,20})$`)

// withRecord returns e, with another fix if the text is the id of an event of the call log.
func withRecord(e *envelope.Error, text string) *envelope.Error {
	event := logEvent.FindStringSubmatch(text)
	if event == nil {
		return e
	}
	return e.WithFix("this is the id of a record, not a reference: give the reference that the call printed; " +
		"`toolbus audit replay --json` shows it to auditors and operators, as ref of the record with log_seq " + event[2])
}
