package dispatcher

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/room"
)

// Requests with large inputs leave handlers to others: when too many wait, the next is refused.
func TestRoomForInputs(t *testing.T) {
	inputs := newInputs(0)
	var held []*room.Share
	for range maxInputsHeld {
		share, err := inputs.reserve(t.Context(), 1)
		if err != nil {
			t.Fatalf("no room for input %d", len(held))
		}
		held = append(held, share)
	}
	if _, err := inputs.reserve(t.Context(), 1); err == nil {
		t.Error("room for one too many")
	}
	inputs.free(held[0])
	if _, err := inputs.reserve(t.Context(), 1); err != nil {
		t.Error("no room where one has left")
	}
}
