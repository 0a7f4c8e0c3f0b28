package envelope

import "time"

// StreamReadRequest asks for messages of the stream AUDIT, DENIED or DEAD: those after the sequence After, or stored at
// or after Since. Without both, the answer begins with the oldest message. Operators may send it, and auditors for
// their own tenant.
type StreamReadRequest struct {
	Stream string    `json:"stream,omitzero"`
	After  uint64    `json:"after,omitzero"`
	Since  time.Time `json:"since,omitzero"`
	Tenant string    `json:"tenant,omitzero"` // only messages of this tenant; "" selects all
	Offset int       `json:"offset,omitzero"` // skip this number of bytes of the first message
	Only   string    `json:"only,omitzero"`   // "" asks for messages; OnlyState and OnlyRecorded for less
}

// Values of [StreamReadRequest].Only.
const (
	OnlyState    = "state"    // only the state of the stream
	OnlyRecorded = "recorded" // whether AUDIT holds all events of the call log, for which the dispatcher waits
)

// StreamReadResponse is the answer to a StreamReadRequest. Messages holds as many messages, in order, as one answer has
// room for.
type StreamReadResponse struct {
	Messages []StreamMessage `json:"messages,omitzero"`
	More     bool            `json:"more,omitzero"` // the stream has more messages after the last one
	// First and Last are the first and last sequence in the stream, and Held is the number of its messages.
	First    uint64    `json:"first,omitzero"`
	Last     uint64    `json:"last,omitzero"`
	Held     uint64    `json:"held,omitzero"`
	Recorded bool      `json:"recorded,omitzero"`
	Now      time.Time `json:"now"` // bus time
}

// StreamMessage is a message of a stream, or a piece of one that is larger than an answer.
type StreamMessage struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Size int       `json:"size"` // size of the whole message in bytes
	Data []byte    `json:"data"`
}
