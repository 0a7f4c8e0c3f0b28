package dispatcher

import "testing"

// Requests with large inputs leave handlers to others: when too many wait, the next is refused.
func TestRoomForInputs(t *testing.T) {
	inputs := newInputs()
	var held []func()
	for range maxInputsHeld {
		free, ok := inputs.reserve(t.Context(), 1)
		if !ok {
			t.Fatalf("no room for input %d", len(held))
		}
		held = append(held, free)
	}
	if _, ok := inputs.reserve(t.Context(), 1); ok {
		t.Error("room for one too many")
	}
	held[0]()
	if _, ok := inputs.reserve(t.Context(), 1); !ok {
		t.Error("no room where one has left")
	}
}
