package envelope

// ReplayRequest asks a dispatcher to call again for what a dead letter asked for, as the actor who asked. It is for
// operators. The key of the call is made from the letter and Again, so the same question always means the same call:
// it is made once, and asking again returns how it stands for as long as its outcome is kept. The answer is a
// [ResultAnswer].
type ReplayRequest struct {
	Letter uint64 `json:"letter"`         // its number in the stream DEAD
	Again  string `json:"again,omitzero"` // any word of at most 64 bytes; each makes a further call
}
