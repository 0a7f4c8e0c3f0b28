package executorapi

import (
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
)

// HelloResponse contains the settings of a bus that an executor needs.
type HelloResponse struct {
	Now        time.Time `json:"now"` // the time of the NATS server, between request and answer
	Partitions int       `json:"partitions"`
	Replicas   int       `json:"replicas"` // of the call log
	LeaseMS    int64     `json:"lease_ms"`
	Fsync      bool      `json:"fsync,omitzero"`
	Identity   bool      `json:"identity,omitzero"` // dispatchers verify tokens
}

// Lease returns how long after its last heartbeat an executor counts as running.
func (h HelloResponse) Lease() time.Duration { return time.Duration(h.LeaseMS) * time.Millisecond }

// nothing is the body of a request or an answer without content.
type nothing struct{}

// consumers is the answer with the consumers of a pool.
type consumers struct {
	All []workqueue.Consumer `json:"all"`
}

// logged requests an event: the last one of the log of a call, or, without Tool, the one at a position.
type logged struct {
	Tool string `json:"tool,omitzero"`
	ID   string `json:"id,omitzero"`
	call.Position
}

// beating is the request for the newest heartbeat of another executor, and the answer, with Seq alone.
type beating struct {
	Pool     string `json:"pool,omitzero"`
	Instance string `json:"instance,omitzero"`
	Seq      uint64 `json:"seq,omitzero"`
}

// late is the request to record the result of a run whose attempt was already decided.
type late struct {
	Record  string          `json:"record"` // the id of the audit record, the same when the request is repeated
	Tool    string          `json:"tool"`
	ID      string          `json:"id"`
	Attempt int             `json:"attempt"`
	Error   envelope.Code   `json:"error,omitzero"`
	Effect  envelope.Effect `json:"effect,omitzero"`
	Fence   uint64          `json:"fence,omitzero"`
	Output  string          `json:"output,omitzero"`
}

// locked is the answer with the safety locks in force. The dispatcher has known for AgeMS that these are all. Now is
// its bus time; older builds send none.
type locked struct {
	Locks []envelope.Lock `json:"locks,omitzero"`
	AgeMS int64           `json:"age_ms"`
	Now   call.UnixMS     `json:"now_ms,omitzero"`
}

// recordedRequest asks whether the audit record contains an event.
type recordedRequest struct {
	call.Position
	At time.Time `json:"at"`
}

type recordedResponse struct {
	Recorded bool `json:"covered,omitzero"`
}

// newest requests the newest message on a subject in the stream of payloads or of chunks. With Direct, the NATS server
// answers with the stored part itself, or with a status if the replica that it reads does not have it.
type newest struct {
	Subject string `json:"subject"`
	Direct  bool   `json:"direct,omitzero"`
}
