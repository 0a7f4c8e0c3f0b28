package envelope

// ReplayRequest asks a dispatcher to repeat the call of a dead letter, as the actor that made it. It is for operators.
// The key of the call is made from Letter and Again, so equal requests mean the same call: the first one starts it, and
// later ones return its state as long as its outcome is kept. The answer is a [ResultResponse].
type ReplayRequest struct {
	Letter uint64 `json:"letter"`         // its sequence in the stream DEAD
	Again  string `json:"again,omitzero"` // at most 64 bytes; another value makes a new call
}
