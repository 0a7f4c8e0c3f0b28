package check

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/call"
)

// What a revoked actor sends is admitted for one second at the most in which nothing kept dispatchers from hearing of
// it, and not after.
func TestRevoked(t *testing.T) {
	w := newWorld(t, call.Pure)
	w.admit("call-1")
	second := func(n float64) time.Time { return epoch.Add(time.Duration(n * float64(time.Second))) }
	ref := w.h.Log[0].State.Ref()
	for _, c := range []struct {
		name   string
		sent   float64
		deaf   []Span
		led    []Span
		broken bool
	}{
		{"within a second", 0.9, nil, []Span{{second(-9), second(60)}}, false},
		{"later", 1.1, nil, []Span{{second(-9), second(60)}}, true},
		{"a dispatcher was away", 3.9, []Span{{second(0.5), second(3)}}, []Span{{second(-9), second(60)}}, false},
		{"after it was back", 4.1, []Span{{second(0.5), second(3)}}, []Span{{second(-9), second(60)}}, true},
		{"nobody led the streams", 3.9, nil, []Span{{second(-9), second(0.5)}, {second(3), second(60)}}, false},
		{"after they were led again", 4.1, nil, []Span{{second(-9), second(0.5)}, {second(3), second(60)}}, true},
	} {
		h := w.h
		h.Led, h.Deaf, h.Revoked = c.led, c.deaf, []Revocation{{Actor: "agent://a", At: epoch}}
		h.Asks = []Ask{
			{Actor: "agent://a", Ref: ref, CallID: "call-1", Sent: second(c.sent)},
			{Actor: "agent://a", Ref: ref, CallID: "refused", Sent: second(c.sent)},
			{Actor: "agent://b", Ref: ref, CallID: "call-1", Sent: second(c.sent)},
		}
		if found := revoked(newIndex(h)); (len(found) == 1) != c.broken || len(found) > 1 {
			t.Errorf("%s: %v", c.name, found)
		}
	}
}
