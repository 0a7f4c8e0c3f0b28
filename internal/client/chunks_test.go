package client_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// streamed is a bus with one call that has chunk 7.
type streamed struct {
	*fixture
	client *client.Client
	opened chan opened
	asked  atomic.Int64 // questions for chunks
}

// opened is the call as its dispatcher took it in.
type opened struct {
	req     envelope.Request
	in      *call.IncomingRequest
	replies *rpc.Replies
}

// streamOne returns that bus; whether the chunk can be read before the outcome is up to stored.
func streamOne(t *testing.T, stored bool) *streamed {
	s := &streamed{fixture: setup(t), opened: make(chan opened, 1)}
	s.client = s.serve(bustest.Describing("count"),
		rpc.Endpoint{Op: subjects.OpChunks, Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) {
			if s.asked.Add(1); !stored {
				return envelope.ChunksResponse{Fence: 1}, nil
			}
			return envelope.ChunksResponse{Header: frame("", "0-0"), Body: []byte("d7\n"), Fence: 1}, nil
		}})
	s.listening(func(in *call.IncomingRequest, req envelope.Request, replies *rpc.Replies) {
		select {
		case s.opened <- opened{req, in, replies}:
		default: // a copy
		}
	})
	return s
}

// frame returns the headers of a frame.
func frame(proof, indexes string) nats.Header {
	h := nats.Header{streaming.HeaderForm: {"2"}, streaming.HeaderChunks: {indexes}}
	if proof != "" {
		h[streaming.HeaderProof] = []string{proof}
	}
	return h
}

// accept says that the call is accepted, by whomever it was opened.
func (s *streamed) accept(o opened, proof string) {
	o.replies.Accepted(o.in.ReplyAddress(), &envelope.Accepted{CallID: o.req.CallID, Ref: "count.id", Attempt: 1,
		DeadlineUnixMS: 1, ToolVersion: "1.0.0", Joined: proof != "", ChunkProof: proof})
}

// send publishes a frame of a run of the call.
func (s *streamed) send(o opened, fence uint64, header nats.Header, body string) {
	of := subjects.ChunkSource{Tenant: s.client.Tenant, Actor: s.client.Actor,
		ID: envelope.CallKeyID(s.client.Tenant, &o.req), Attempt: 1, Fence: fence}
	if err := s.NC.PublishMsg(&nats.Msg{Subject: of.Subject(), Header: header, Data: []byte(body)}); err != nil {
		s.T.Error(err)
	}
}

// end says the outcome, which names one chunk, 7.
func (s *streamed) end(o opened) {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, 1), '7'))
	o.replies.Outcome(o.in.ReplyAddress(), &envelope.Response{
		CallID: o.req.CallID, Status: envelope.Success, Output: jsontext.Value(`{}`),
		Provenance: envelope.Provenance{ToolID: "count", ToolVersion: "1.0.0", Attempt: 1, Fence: 1, Final: true,
			Chunks: &envelope.Chunks{Count: 1, Digest: hex.EncodeToString(sum[:])}},
	})
}

// A frame that carries no proof of the call, or another, is not believed, whatever else it says: somebody may have had
// the server send it. That the executor of a newer run has sent it would void what was read.
func TestForgedFramesAreNotBelieved(t *testing.T) {
	s := streamOne(t, true)
	calling := make(chan []string, 1)
	go func() { calling <- s.call(nil) }()
	o := <-s.opened
	stored := frame("", "0-0")
	stored["Nats-Stream"] = []string{""}
	for _, h := range []nats.Header{nil, frame("", "0-0"), stored, frame("00000000000000000000000000000000", "0-0")} {
		s.send(o, 99, h, "d8\n")
		s.send(o, 1, h, "d8\n")
	}
	s.end(o)
	if got := <-calling; len(got) != 2 || got[0] != "7" || got[1] != "success" {
		t.Errorf("%q", got)
	}
}

// Frames of builds that know no proof are read where they are stored, while the call runs.
func TestFramesWithoutProofAreRead(t *testing.T) {
	s := streamOne(t, true)
	calling, first := make(chan []string, 1), make(chan struct{})
	go func() { calling <- s.call(func() { close(first) }) }()
	o := <-s.opened
	s.send(o, 1, frame("", "0-0"), "d7\n") // before the acceptance
	s.accept(o, "")
	select {
	case <-first:
	case got := <-calling:
		t.Fatalf("the call ended before its chunk came: %q", got)
	}
	s.end(o)
	if got := <-calling; len(got) != 2 || got[1] != "success" {
		t.Errorf("%q", got)
	}
}

// After a few empty answers, forged frames make the client ask for chunks at most about twice a second.
func TestForgedFramesCostFewQuestions(t *testing.T) {
	s := streamOne(t, false)
	calling := make(chan []string, 1)
	go func() { calling <- s.call(nil) }()
	o := <-s.opened
	s.accept(o, "")
	for flood := time.Now(); time.Since(flood) < 2*time.Second; <-time.After(time.Millisecond) {
		s.send(o, 1, frame("", "0-0"), "d7\n")
	}
	if n := s.asked.Load(); n == 0 || n > 8 {
		t.Errorf("%d questions in two seconds, want one to eight", n)
	}
	proof := subjects.ChunkProof(o.in.ReplyAddress().Reply, envelope.CallKeyID(s.client.Tenant, &o.req))
	s.send(o, 1, frame(proof, "0-0"), "d7\n")
	s.end(o)
	if got := <-calling; len(got) != 2 || got[1] != "success" {
		t.Errorf("%q", got)
	}
}

// A joiner believes the frames whose proof its acceptance tells.
func TestJoinersBelieveTheProofThatTheyAreTold(t *testing.T) {
	s := streamOne(t, false)
	calling, first := make(chan []string, 1), make(chan struct{})
	go func() { calling <- s.call(func() { close(first) }) }()
	o := <-s.opened
	s.accept(o, "of the owner")
	for known := false; !known; { // a frame that comes before the acceptance is not believed
		s.send(o, 1, frame("of the owner", "0-0"), "d7\n")
		select {
		case <-first:
			known = true
		case got := <-calling:
			t.Fatalf("the call ended before its chunk came: %q", got)
		case <-time.After(10 * time.Millisecond):
		}
	}
	s.end(o)
	if got := <-calling; len(got) != 2 || got[1] != "success" {
		t.Errorf("%q", got)
	}
}

// call returns the chunks of a call and its status; first is called at the first chunk.
func (s *streamed) call(first func()) (got []string) {
	r, err := s.client.Call(s.T.Context(), client.Call{Tool: "count", Timeout: 20 * time.Second,
		OnChunk: func(chunk envelope.Chunk) error {
			if got = append(got, string(chunk.Data)); first != nil {
				first()
				first = nil
			}
			return nil
		}})
	if err != nil {
		return append(got, err.Error())
	}
	return append(got, string(r.Status))
}
