package proxy

import (
	"bytes"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Kind is the role of a message in Toolbus.
type Kind string

// Kinds of messages.
const (
	Request  Kind = "request"  // request for a call, or its delivery to a dispatcher
	Service  Kind = "service"  // result, cancel, why, describe, chunks, inventory, token renewal
	Write    Kind = "write"    // event of the call log
	PubAck   Kind = "puback"   // acknowledgement of any publish to JetStream
	WorkAck  Kind = "workack"  // ack, nak or in-progress of a work message
	Answer   Kind = "answer"   // accepted or outcome to a caller
	Beat     Kind = "beat"     // heartbeat of an executor
	Chunk    Kind = "chunk"    // frame of a streamed result
	Audit    Kind = "audit"    // segment of the audit record
	Control  Kind = "control"  // kill of a call, or question which executor runs it
	Desk     Kind = "desk"     // request of an executor to dispatchers, or its reply to a kill
	API      Kind = "api"      // JetStream API: reads, pulls, consumers
	Delivery Kind = "delivery" // any other message that the server delivers
	Other    Kind = "other"
)

// Kinds returns all kinds, in the order of reports.
func Kinds() []Kind {
	return []Kind{
		Request, Service, Write, PubAck, WorkAck, Answer, Beat, Chunk, Audit, Control, Desk, API, Delivery, Other,
	}
}

// prefixes maps the beginnings of subjects to kinds.
var prefixes = func() map[string]Kind {
	m := map[string]Kind{jetstream.DefaultAPIPrefix: API, "$JS.ACK.": WorkAck}
	for wildcard, kind := range map[string]Kind{
		subjects.CallWildcard: Request, subjects.PoolsAll: Beat, subjects.ChunksAll: Chunk,
		subjects.AuditAll: Audit, subjects.KillWildcard: Control, subjects.LocateWildcard: Control,
		subjects.ServiceWildcard(subjects.OpResult): Service, subjects.ServiceWildcard(subjects.OpCancel): Service,
		subjects.ServiceWildcard(subjects.OpWhy): Service, subjects.ServiceWildcard(subjects.OpDescribe): Service,
		subjects.ServiceWildcard(subjects.OpChunks): Service, subjects.ServiceWildcard(subjects.OpInventory): Service,
		subjects.ServiceWildcard(subjects.OpTokenRenew): Service,
		subjects.ExecutorReplyWildcard:                  Desk,
	} {
		m[strings.TrimRight(wildcard, "*.>")+"."] = kind
	}
	for _, op := range []string{
		subjects.OpHello, subjects.OpWork, subjects.OpLog, subjects.OpBeat, subjects.OpLate, subjects.OpDead,
		subjects.OpCovered, subjects.OpLogin,
	} {
		m[strings.TrimRight(subjects.ExecutorRequestWildcard(op), "*.")+"."] = Desk
	}
	for p := range subjects.Partition(subjects.MaxPartitions) {
		m[strings.TrimRight(p.All(), ">")] = Write
	}
	return m
}()

// answers is the prefix of the subjects on which callers wait for answers.
var answers, _, _ = strings.Cut(subjects.Answers("t", "a"), "t.a")

// kindOf returns the kind of a frame.
func kindOf(f *frame) Kind {
	if strings.HasPrefix(f.subject, answers) {
		if bytes.Contains(f.headers, []byte("\r\n"+subjects.HeaderKind+":")) {
			return Answer
		}
		return Delivery
	}
	if strings.HasPrefix(f.subject, nats.InboxPrefix) {
		switch {
		case f.verb == "MSG" && bytes.HasPrefix(f.body, []byte(`{"stream":`)):
			return PubAck
		case f.verb == "MSG" && bytes.HasPrefix(f.body, []byte(`{"error":`)):
			return PubAck // a refused write: {"error":…,"stream":…}
		}
		return Delivery
	}
	for prefix, kind := range prefixes {
		if strings.HasPrefix(f.subject, prefix) {
			return kind
		}
	}
	if f.verb == "MSG" || f.verb == "HMSG" {
		return Delivery
	}
	return Other
}
