package bus_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// serve offers endpoints until the test ends, and returns a client of them.
func (f *fixture) serve(endpoints ...bus.Endpoint) *bus.Client {
	f.t.Helper()
	svc, err := bus.Serve(context.WithoutCancel(f.t.Context()), f.nc, "0.0.1", endpoints)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.nc.Flush(); err != nil { // the client has a connection of its own
		f.t.Fatal(err)
	}
	c, err := bus.NewClient(f.srv.Connect(f.t), bus.ClientOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = c.Close()
		if err := svc.Stop(); err != nil {
			f.t.Error(err)
		}
	})
	return c
}

// A cancel may take a while, because executors are asked. Others do not wait for it.
func TestServesSideBySide(t *testing.T) {
	f := setup(t)
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	c := f.serve(bus.Endpoint{Op: subjects.OpCancel, Handle: func(context.Context, string, string, []byte) (any, *envelope.Error) {
		arrived <- struct{}{}
		<-release
		return bus.CancelAnswer{Told: "queued"}, nil
	}})
	told := make(chan error, 10)
	for range 10 {
		go func() {
			a, err := c.Cancel(t.Context(), bus.CallQuery{Ref: "echo.id"})
			if err == nil && a.Told != "queued" {
				t.Errorf("told %q", a.Told)
			}
			told <- err
		}()
	}
	late := time.After(4 * time.Second)
	for n := range 10 {
		select {
		case <-arrived:
		case <-late:
			t.Errorf("only %d are served at once", n)
			close(release)
			return
		}
	}
	close(release)
	for range 10 {
		if err := <-told; err != nil {
			t.Error(err)
		}
	}
}

// A dispatcher that cannot read the chunks for the moment is asked again: the outcome is there, and
// a Go error would say that nothing was sent.
func TestChunksNotReadAtFirst(t *testing.T) {
	f := setup(t)
	var asked atomic.Int32
	c := f.serve(
		bus.Endpoint{Op: subjects.OpDescribe, Handle: func(context.Context, string, string, []byte) (any, *envelope.Error) {
			schema := jsontext.Value(`{"type":"object"}`)
			return bus.Description{NowUnixMS: time.Now().UnixMilli(), Tools: []bus.ToolInfo{{
				ToolID: "count", Version: "1.0.0", TimeoutDefaultMS: 5000,
				Functions: map[string]bus.FnInfo{"run": {Request: schema, Response: schema}},
			}}}, nil
		}},
		bus.Endpoint{Op: subjects.OpChunks, Handle: func(context.Context, string, string, []byte) (any, *envelope.Error) {
			if asked.Add(1) == 1 {
				return nil, envelope.NewError(envelope.CodeUnavailable, "the chunks could not be read")
			}
			return bus.ChunksAnswer{Header: map[string][]string{streaming.HeaderChunks: {"0-0"}}, Body: []byte("d7\n")}, nil
		}},
	)
	replies := bus.NewReplies(f.nc, slog.New(slog.DiscardHandler))
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, 1), '7'))
	intake, err := bus.Listen(t.Context(), f.nc, func(_ context.Context, in bus.Incoming) {
		var req envelope.Request
		if err := json.Unmarshal(in.Body, &req); err != nil {
			t.Error(err)
		}
		replies.Outcome(in.Reply, in.ContentType, &envelope.Response{
			CallID: req.CallID, Status: envelope.Success, Output: jsontext.Value(`{}`),
			Provenance: envelope.Provenance{
				ToolID: "count", ToolVersion: "1.0.0", Attempt: 1, Fence: 1, Final: true,
				Chunks: &envelope.Chunks{Count: 1, Digest: hex.EncodeToString(sum[:])},
			},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer intake.Stop()
	if err := f.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	var chunks []string
	r, err := c.Call(t.Context(), bus.Call{Tool: "count", Chunk: func(chunk envelope.Chunk) error {
		chunks = append(chunks, string(chunk.Data))
		return nil
	}})
	if err != nil || r.Status != envelope.Success || len(chunks) != 1 || chunks[0] != "7" {
		t.Errorf("%+v, %v, chunks %v", r, err, chunks)
	}
}
