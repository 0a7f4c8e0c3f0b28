package checker

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// A request of a revoked actor that is sent more than a second after the revocation must never be admitted. An earlier
// one must not be admitted late, unless it was delayed. Only actors that have tried are judged.
func TestRevoked(t *testing.T) {
	second := func(n float64) time.Time { return epoch.Add(time.Duration(n * float64(time.Second))) }
	for _, c := range []struct {
		name     string
		sent, at float64
		held     []Span
		refused  int
		broken   int
	}{
		{"within a second", 0.5, 0.9, nil, 20, 0},
		{"sent later", 1.1, 1.15, nil, 20, 1},
		{"sent later, whatever happened", 1.1, 3, []Span{{second(0), second(9)}}, 20, 1},
		{"sent before, and admitted later", 0.9, 1.5, nil, 20, 1},
		{"sent before, and held up", 0.9, 1.5, []Span{{second(1), second(1.2)}}, 20, 0},
		{"sent before, and admitted within the slack", 0.9, 1.04, nil, 20, 0},
		{"sent before it was revoked, and lost once", -0.1, 3, nil, 20, 0},
		{"sent before it was revoked, and admitted long after", -0.1, 4, nil, 20, 1},
		{"not exercised", 0.5, 0.9, nil, 19, 1},
	} {
		w := newWorld(t, call.Pure)
		w.admit("call-1")
		h := w.h
		h.Log[0].Time = second(c.at)
		h.Led, h.Held, h.SlackMS = []Span{{second(-9), second(60)}}, c.held, 50
		h.Revoked = []Revocation{{Actor: "a", At: epoch}}
		ref := h.Log[0].State.Ref()
		h.Asks = []Ask{{Actor: "a", Ref: ref, CallID: "call-1", Sent: second(c.sent)}}
		for n := range c.refused {
			h.Asks = append(h.Asks, Ask{
				Actor: "a", Ref: ref, CallID: fmt.Sprint("refused", n), Sent: second(2), Door: n%2 == 0,
				Answers: []*envelope.Response{envelope.Failure("", envelope.NewError(envelope.CodeRevoked, ""),
					envelope.Provenance{Final: true}, envelope.Metrics{})},
			})
		}
		if found := revoked(newIndex(h)); len(found) != c.broken {
			t.Errorf("%s: %v", c.name, found)
		}
		if n := h.Later(h.Revoked[0]); n.Refused != c.refused || n.Door != (c.refused+1)/2 {
			t.Errorf("%s: %+v", c.name, n)
		}
	}
}
