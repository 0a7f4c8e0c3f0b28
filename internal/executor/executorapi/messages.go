package executorapi

import (
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
)

// HelloResponse is what an executor has to know of a bus.
type HelloResponse struct {
	Now        time.Time `json:"now"` // of the server, between question and answer
	Partitions int       `json:"partitions"`
	Replicas   int       `json:"replicas"` // of the call log
	LeaseMS    int64     `json:"lease_ms"`
	Fsync      bool      `json:"fsync,omitzero"`
	Identity   bool      `json:"identity,omitzero"` // tokens say who is who, and permissions go by them
}

// Lease is how long an executor may be silent.
func (h HelloResponse) Lease() time.Duration { return time.Duration(h.LeaseMS) * time.Millisecond }

// nothing is a question, or an answer, that says all by its name.
type nothing struct{}

// consumers is how the consumers of a pool are.
type consumers struct {
	All []workqueue.Consumer `json:"all"`
}

// logged asks for an event: the last of a log, or the one at a position.
type logged struct {
	Tool string `json:"tool,omitzero"`
	ID   string `json:"id,omitzero"`
	call.Position
}

// beating asks for the newest heartbeat of another executor, and is the answer.
type beating struct {
	Pool     string `json:"pool,omitzero"`
	Instance string `json:"instance,omitzero"`
	Seq      uint64 `json:"seq,omitzero"`
}

// late is what a run had to say after its attempt was decided.
type late struct {
	Record  string          `json:"record"` // its id, the same however often it is asked for
	Tool    string          `json:"tool"`
	ID      string          `json:"id"`
	Attempt int             `json:"attempt"`
	Error   envelope.Code   `json:"error,omitzero"`
	Effect  envelope.Effect `json:"effect,omitzero"`
	Fence   uint64          `json:"fence,omitzero"`
	Output  string          `json:"output,omitzero"`
}

// recordedRequest asks whether an event is on record.
type recordedRequest struct {
	call.Position
	At time.Time `json:"at"`
}

type recordedResponse struct {
	Recorded bool `json:"covered,omitzero"`
}

// newest asks for the newest message that the stream of payloads, or of chunks, holds on a subject. Direct asks for the
// stored part itself: the server answers with it, or with a status if the replica that it asks does not have it.
type newest struct {
	Subject string `json:"subject"`
	Direct  bool   `json:"direct,omitzero"`
}
