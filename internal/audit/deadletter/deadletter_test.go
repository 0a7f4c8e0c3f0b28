package deadletter

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// A dead letter contains the history of the call, including events after its work message.
func TestLetterHasHistory(t *testing.T) {
	admitted := call.State{Attempts: []call.Attempt{{N: 1, Admitted: 7}}}
	claimed := call.State{Attempts: []call.Attempt{{N: 1, Admitted: 7,
		Claim: &call.Claim{By: "default/e1", Fence: 11, Count: 5}}}}
	m := call.Entry{Attempt: 1, State: admitted, Body: []byte(`{}`)}
	d := New(claimed, m, 7, envelope.NewError(envelope.CodeLost, ""), time.Now())
	if c := d.State.Last().Claim; c == nil || c.Count != 5 || d.Deliveries != 7 || d.Attempt != 1 ||
		string(d.Body) != `{}` {
		t.Errorf("%+v", d)
	}
}
