package call

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// TestSizeIsAnUpperBound fills states with text that needs every kind of escape.
func TestSizeIsAnUpperBound(t *testing.T) {
	t.Parallel()
	const id = "11111111-1111-4111-8111-111111111111"
	for name, text := range map[string]string{
		"nothing": "", "plain": strings.Repeat("x", 256), "wide": strings.Repeat("ü𝄞", 128),
		"spaces": strings.Repeat(" ", 256), "escapes": strings.Repeat("\"\\|%\n\x00\x7f", 64),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := Owner{CallID: id, Actor: text, Reply: text, ContentType: text, Trace: text, Parent: text, Run: text,
				Role: text, Lane: text, Scopes: text}
			s := State{Pinned: Pinned{Tenant: text, Tool: text, ID: text, Fn: text, Version: text, Digest: text, Pool: text,
				Fingerprint: text, ArgsHash: text}}
			for n := range MaxAttempts {
				a := Attempt{
					N: n + 1, Owner: owner, Nonce: text, Admitted: 1 << 63, At: 1 << 62, Deadline: 1 << 62,
					Priority: envelope.PriorityNormal,
					Claim:    &Claim{By: text, Nonce: text, Fence: 1 << 63, Count: 2 * MaxDeaths, Alone: MaxDeaths},
					Decision: &Decision{
						Seq: 1 << 63, Nonce: id, Code: envelope.CodeCancelledUnknown, Status: envelope.TerminalError,
						Effect: envelope.EffectUnknown, OutputHash: strings.Repeat("0", 64), At: 1 << 62, Fence: 1 << 63,
						By: ByCanceller, NotTaken: true,
					},
				}
				if n%2 == 1 {
					a.Claim = nil
				}
				for range 100 {
					a.Joined = append(a.Joined, id)
				}
				s.Attempts = append(s.Attempts, a)
			}
			raw, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.size(); got < len(raw) {
				t.Errorf("bounded by %d, it has %d bytes", got, len(raw))
			}
		})
	}
}

// TestLargestState fills a log up to all limits; whatever is written stays below what a server
// takes, with room for the other headers.
func TestLargestState(t *testing.T) {
	t.Parallel()
	var s State
	written := func(e Event) {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if most := envelope.MaxHeaders - 3<<10; len(raw) > most {
			t.Fatalf("%s of attempt %d has %d bytes, more than %d", e.Kind, e.Attempt, len(raw), most)
		}
		s = Fold(e, s.Seq+1)
	}
	wide := strings.Repeat("ü", envelope.MaxID)
	ids := make([]string, 2*MaxJoined)
	for n := range MaxAttempts {
		v := Admit(s, AdmitRequest{Owner: Owner{CallID: fmt.Sprintf("%036d", n), Actor: wide, Run: wide,
			Role: wide, Lane: wide},
			Pinned: Pinned{Class: Idempotent}})
		if v.Do != Write {
			t.Fatalf("attempt %d: %+v", n+1, v)
		}
		written(v.Event)
		for i := range ids {
			ids[i] = fmt.Sprintf("%d-%034d", n, i)
		}
		e, left := JoinAll(s, n+1, ids, "j")
		if len(left) < MaxJoined {
			t.Errorf("attempt %d: only %d of %d are left over", n+1, len(left), len(ids))
		}
		written(e)
		_, e = Take(s, WorkDelivery{Attempt: n + 1, Admitted: s.Last().Admitted, Deliveries: 2, Now: -1, By: wide,
			Nonce: wide})
		written(e)
		r := Decide(s, n+1, s.Last().Admitted, Completion{Cause: Cancelled, Nonce: wide, Output: strings.Repeat("0", 64)})
		written(r.Event)
	}
}
