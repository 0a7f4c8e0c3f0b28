package call_test

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// FuzzEvent folds whatever decodes as an event, and asks all questions about it: what stands in a
// log may have been written by somebody else, or by another version.
func FuzzEvent(f *testing.F) {
	for _, raw := range goldenEvents(f) {
		f.Add(raw)
	}
	f.Add([]byte(`{"kind":"o","attempt":1,"state":{"attempts":[{"n":1,"owner":{}}]}}`))
	f.Add([]byte(`{"kind":"c","attempt":2,"state":{"attempts":[{"n":1},{"n":1}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var e call.Event
		if json.Unmarshal(raw, &e) != nil {
			return
		}
		s := call.Fold(e, 7)
		if s.Seq != 7 || len(s.Attempts) != len(e.State.Attempts) {
			t.Errorf("folded to %d attempts at %d", len(s.Attempts), s.Seq)
		}
		interrogate(s, e)
		again, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(again, &e); err != nil {
			t.Errorf("what was written is not read: %v", err)
		}
	})
}

// interrogate asks every question that the processes ask a log.
func interrogate(s call.State, e call.Event) {
	a := ask(call.Pure, "A")
	a.Fingerprint = s.Fingerprint
	if v := call.Admit(s, a); v.Do == call.Join {
		call.JoinAll(s, v.Attempt, []string{"A", "B"}, "j")
	}
	for n := range 3 {
		at, _ := s.Attempt(n)
		p := call.WorkDelivery{Attempt: n, Admitted: at.Admitted, Deliveries: 1, Nonce: "c",
			Gone: func(string) bool { return true }}
		call.Take(s, p)
		call.Fence(s, p)
		for c := call.ToolEnded; c <= call.BuildAbsent; c++ {
			call.Decide(s, n, at.Admitted, call.Completion{Cause: c, Claim: "c", Error: envelope.CodeToolFault})
		}
		call.Explain(s, n, start.Time())
		_, _, _ = call.Entry{State: s, Kind: e.Kind, Attempt: e.Attempt, Body: []byte(`{"response":1}`)}.Outcome(n)
	}
	s.Wrote(e)
	s.Final()
	call.DefaultExpiry.TTL(e)
}

// FuzzRequestBody holds the short way of reading a body against the long one.
func FuzzRequestBody(f *testing.F) {
	for _, s := range []string{
		`{"request":{}}`, `{"request":1,"earlier":[]}`, `{"request":{},"request":{}}`, `{"input_ref":"x","request":[]}`,
		`{"request":}`, `{"request":{}} `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		short, err := call.DecodeRequestBody(raw)
		var long call.RequestBody
		if longErr := json.Unmarshal(raw, &long); (err == nil) != (longErr == nil) {
			t.Fatalf("short: %v, long: %v", err, longErr)
		}
		if err == nil && (!bytes.Equal(bytes.TrimSpace(short.Request), bytes.TrimSpace(long.Request)) ||
			short.InputRef != long.InputRef || len(short.Earlier) != len(long.Earlier)) {
			t.Errorf("short: %+v, long: %+v", short, long)
		}
		only, ok := call.OnlyRequest(raw)
		if ok && only.IsValid() && (err != nil || !bytes.Equal(bytes.TrimSpace(only), bytes.TrimSpace(long.Request))) {
			t.Errorf("only %s, all: %+v, %v", only, long, err)
		}
	})
}
