package envelope

import "time"

// StreamReadRequest asks for messages of a stream of the record, AUDIT, DENIED or DEAD, behind one of them or from a
// time on. The answer to one that names no place begins with the oldest. Operators may ask it, and auditors for their
// tenant.
type StreamReadRequest struct {
	Stream string    `json:"stream,omitzero"`
	After  uint64    `json:"after,omitzero"`
	Since  time.Time `json:"since,omitzero"`
	Tenant string    `json:"tenant,omitzero"` // only what is of this one; "" is all
	Offset int       `json:"offset,omitzero"` // from which byte of the first message on
	Only   string    `json:"only,omitzero"`   // "" are messages; else one of the constants below
}

// What else [Stored] asks for.
const (
	OnlyState    = "state"    // no messages
	OnlyRecorded = "recorded" // whether all that the call log holds is on record, which is waited for a while
)

// StreamReadResponse is the answer: messages, in order, as many as have room.
type StreamReadResponse struct {
	Messages []StreamMessage `json:"messages,omitzero"`
	More     bool            `json:"more,omitzero"` // there are others behind the last one
	// What the stream holds: from one position to another, and how many messages.
	First    uint64    `json:"first,omitzero"`
	Last     uint64    `json:"last,omitzero"`
	Held     uint64    `json:"held,omitzero"`
	Recorded bool      `json:"recorded,omitzero"`
	Now      time.Time `json:"now"` // bus time
}

// StreamMessage is a message of a stream, or a part of one that is larger than an answer.
type StreamMessage struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Size int       `json:"size"` // of the whole message, in bytes
	Data []byte    `json:"data"`
}
