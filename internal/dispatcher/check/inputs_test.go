package check

import (
	"fmt"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// Requests with large inputs leave handlers to others: when too many wait, of one actor or of all, the next is refused.
func TestRoomForInputs(t *testing.T) {
	inputs := newInputs(0)
	take := func(actor int) (*flow.Reservation, error) {
		return inputs.memory.Acquire(t.Context(), flow.Sender{Tenant: "t", Actor: fmt.Sprint(actor)}, 1)
	}
	var held []*flow.Reservation
	for n := range maxInputsHeld {
		share, err := take(n / maxActorInputs)
		if err != nil {
			t.Fatalf("no room for input %d", len(held))
		}
		held = append(held, share)
	}
	if _, err := take(-1); err == nil {
		t.Error("room for one too many")
	}
	held[0].Release()
	if _, err := take(1); err == nil {
		t.Error("room for one too many of an actor")
	}
	if _, err := take(0); err != nil {
		t.Error("no room where one has left")
	}
}
