package envelope

// What an answer is; the value of header Tb-Kind.
const (
	KindAccepted = "accepted"
	KindOutcome  = "outcome"
	KindRefusal  = "refusal" // a service could not answer: the body is a Refused
)

// CallRef names a call by the reference that its acceptance gave. CallID narrows it to the attempt that this call id
// owns or joined; without one it is the newest.
type CallRef struct {
	Ref    string `json:"ref"`
	CallID string `json:"call_id,omitzero"`
}

// ResultResponse is the outcome of a call, or its acceptance while there is none.
type ResultResponse struct {
	Response *Response `json:"response,omitzero"`
	Accepted *Accepted `json:"accepted,omitzero"`
	// Of the answer to a [Replay], which does not name the call.
	Tenant string `json:"tenant,omitzero"`
	Actor  string `json:"actor,omitzero"`
	Ref    string `json:"ref,omitzero"`
}

// CancelResponse says what a cancel did: "queued" (it never starts; of a pure or idempotent call, no
// executor said that it runs it), "running" (killed), "detached" (a joiner left; the call goes on), "decided" (too
// late; Response is the outcome).
type CancelResponse struct {
	Phase    string    `json:"told"`
	Response *Response `json:"response,omitzero"`
}

// WhyResponse is one sentence.
type WhyResponse struct {
	Sentence string `json:"sentence"`
}

// ChunksRequest asks for stored chunks of one run of a call, from an index on.
type ChunksRequest struct {
	Ref      string `json:"ref"`
	CallID   string `json:"call_id"`
	Attempt  int    `json:"attempt"`
	Fence    uint64 `json:"fence"` // 0: of the newest run of the attempt
	Index    int64  `json:"index"`
	After    uint64 `json:"after,omitzero"`
	MaxBytes int    `json:"max_bytes"`
}

// ChunksResponse is a frame of chunks; an empty one means that they are not stored yet. Expired
// means that they never will be.
type ChunksResponse struct {
	Header  map[string][]string `json:"header,omitzero"`
	Body    []byte              `json:"body,omitzero"`
	Fence   uint64              `json:"fence"` // of the run that they are of
	Expired bool                `json:"expired,omitzero"`
}

// PayloadRequest asks for a part, from 0, of the large output of a call, by the reference that its outcome has. Direct
// asks for the stored message itself: the server answers with it, or with a status if the replica that it asks does
// not have it. A dispatcher of a build that does not know the member answers with a PayloadAnswer.
type PayloadRequest struct {
	Ref    string `json:"ref"`
	SHA256 string `json:"sha256"`
	Part   int64  `json:"part"`
	Direct bool   `json:"direct,omitzero"`
}

// PayloadResponse is that part.
type PayloadResponse struct {
	Body []byte `json:"body"`
}

// Inventory is what one dispatcher has loaded. All of them answer this question, so that they can be compared.
type Inventory struct {
	Instance string            `json:"instance"`
	Tools    map[string]string `json:"tools"` // version and digest, by tool id
	// More says that there are tools behind the last one, by id, for which there was no room.
	More bool `json:"more,omitzero"`
}

// ServiceRefusal is the body of an answer of kind [KindRefusal].
type ServiceRefusal struct {
	Refusal *Error `json:"refusal"`
}

// JoinerLeft says to all dispatchers, since nobody knows where a caller waits, that a joiner does not wait any more
// for the outcome of an attempt.
type JoinerLeft struct {
	Tool    string `json:"tool"`
	ID      string `json:"id"`
	Attempt int    `json:"attempt"`
	CallID  string `json:"call_id"`
}
