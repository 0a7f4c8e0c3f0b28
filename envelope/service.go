package envelope

import "github.com/go-json-experiment/json/jsontext"

// Kinds of answers: values of the header Tb-Kind.
const (
	KindAccepted = "accepted"
	KindOutcome  = "outcome"
	KindRefusal  = "refusal" // a dispatcher refused a request of the service; the body is a ServiceRefusal
)

// CallRef identifies a call by its reference, <tool>.<id>. CallID selects the attempt that the request with this call
// id opened or joined; "" selects the newest attempt.
type CallRef struct {
	Ref    string `json:"ref"`
	CallID string `json:"call_id,omitzero"`
}

// ResultResponse holds the outcome of a call, or its acceptance if it has no outcome yet.
type ResultResponse struct {
	Response *Response `json:"response,omitzero"`
	Accepted *Accepted `json:"accepted,omitzero"`
	// Tenant, Actor and Ref are set only in the answer to a [ReplayRequest], which does not name the call.
	Tenant string `json:"tenant,omitzero"`
	Actor  string `json:"actor,omitzero"`
	Ref    string `json:"ref,omitzero"`
}

// CancelResponse is the result of a cancel. Phase is one of "queued": the call never starts (for a pure or idempotent
// call: no executor reported that it runs it); "running": the run was killed; "detached": only the joiner no longer
// waits, and the call goes on; "decided": the call had ended before, with the outcome Response.
type CancelResponse struct {
	Phase    string    `json:"told"`
	Response *Response `json:"response,omitzero"`
}

// AnswerRequest answers a question that the tool asks while the call runs. Question is [OpenQuestion].ID, and Result is
// the result of elicitation/create of MCP. Without a result the caller does not answer.
type AnswerRequest struct {
	Ref      string         `json:"ref"`
	Question string         `json:"question"`
	Result   jsontext.Value `json:"result,omitzero"`
}

// WhyResponse holds a text that explains the state of a call, and names the policy that allowed it.
type WhyResponse struct {
	Sentence string `json:"sentence"`
}

// ChunksRequest asks for stored chunks of one run of a call, from Index on. After is a hint, see package streaming.
type ChunksRequest struct {
	Ref      string `json:"ref"`
	CallID   string `json:"call_id"`
	Attempt  int    `json:"attempt"`
	Fence    uint64 `json:"fence"` // 0 selects the newest run of the attempt
	Index    int64  `json:"index"`
	After    uint64 `json:"after,omitzero"`
	MaxBytes int    `json:"max_bytes"`
}

// ChunksResponse holds a frame of chunks, see package streaming. An empty frame means that the chunks are not stored
// yet. Expired means that they are no longer stored.
type ChunksResponse struct {
	Header  map[string][]string `json:"header,omitzero"`
	Body    []byte              `json:"body,omitzero"`
	Fence   uint64              `json:"fence"` // fence of the run of these chunks
	Expired bool                `json:"expired,omitzero"`
}

// PayloadRequest asks for one part of the large output of a call. SHA256 is that of the OutputRef of its outcome; the
// first part is 0. Direct asks for the stored message itself: a NATS server answers with it, or with a status if its
// replica does not have it. Dispatchers of older builds ignore Direct and answer with a PayloadResponse.
type PayloadRequest struct {
	Ref    string `json:"ref"`
	SHA256 string `json:"sha256"`
	Part   int64  `json:"part"`
	Direct bool   `json:"direct,omitzero"`
}

// PayloadResponse holds the part that a PayloadRequest asks for.
type PayloadResponse struct {
	Body []byte `json:"body"`
}

// Inventory lists the tools and settings of one dispatcher. All dispatchers answer the request, so that they can be
// compared.
type Inventory struct {
	Instance string            `json:"instance"`
	Tools    map[string]string `json:"tools"` // version and digest, by tool id
	// NoAuth means that the dispatcher authenticates nobody. Builds before this member never set it.
	NoAuth bool `json:"no_auth,omitzero"`
	// More means that Tools lacks the tools with ids after the last one, because the message had no room for them.
	More bool `json:"more,omitzero"`
	// Settings are the values that all dispatchers must have alike, by flag. Builds before this member never set it.
	Settings map[string]string `json:"settings,omitzero"`
	// Profile is the profile of the deployment. `toolbus dev` and builds before this member never set it.
	Profile string `json:"profile,omitzero"`
}

// ServiceRefusal is the body of an answer with kind [KindRefusal].
type ServiceRefusal struct {
	Refusal *Error `json:"refusal"`
}

// JoinerLeft notifies all dispatchers that a joiner no longer waits for the outcome of an attempt. It goes to all of
// them because the sender does not know which one holds the wait.
type JoinerLeft struct {
	Tool    string `json:"tool"`
	ID      string `json:"id"`
	Attempt int    `json:"attempt"`
	CallID  string `json:"call_id"`
}
