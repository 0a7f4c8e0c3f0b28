package client_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/exchange"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// fixture is a bus with what the tests of clients do to it.
type fixture struct{ *bustest.Bus }

func setup(t *testing.T) *fixture {
	t.Helper()
	return &fixture{bustest.Start(t)}
}

// serve offers endpoints until the test ends, and returns a client of them.
func (f *fixture) serve(endpoints ...rpc.Endpoint) *client.Client {
	f.T.Helper()
	f.Serve(endpoints...)
	c, err := client.New(f.Srv.Connect(f.T), client.Options{})
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() { _ = c.Close() })
	return c
}

// listening takes in all requests until the test ends.
func (f *fixture) listening(handle func(in *call.IncomingRequest, req envelope.Request, replies *rpc.Replies)) {
	f.T.Helper()
	replies := rpc.NewReplies(f.NC, slog.New(slog.DiscardHandler))
	intake, err := rpc.Listen(f.T.Context(), f.NC, slog.New(slog.DiscardHandler),
		func(_ context.Context, in *call.IncomingRequest) {
			var req envelope.Request
			if err := json.Unmarshal(in.Body, &req); err != nil {
				f.T.Error(err)
			}
			handle(in, req, replies)
		}, func(context.Context, *call.IncomingRequest, *flow.QueueFullError) {})
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(intake.Stop)
	if err := f.NC.Flush(); err != nil {
		f.T.Fatal(err)
	}
}

// answering gives every call the same outcome until the test ends. It counts them.
func (f *fixture) answering(outcome envelope.Response) *atomic.Int32 {
	f.T.Helper()
	var asked atomic.Int32
	f.listening(func(in *call.IncomingRequest, req envelope.Request, replies *rpc.Replies) {
		asked.Add(1)
		answer := outcome
		answer.CallID = req.CallID
		replies.Outcome(in.ReplyAddress(), &answer)
	})
	return &asked
}

// Nobody is answered anywhere but below the prefix of its own actor. Elsewhere the answer would be taken for a record,
// an event of the log or an acknowledgement, or for the answer to somebody else.
func TestAnswersGoToInboxesOnly(t *testing.T) {
	f := setup(t)
	f.serve(bustest.Describing("count"))
	asked := f.answering(envelope.Response{Status: envelope.Success, Output: []byte(`{}`)})
	for _, subject := range []string{subjects.Call("t", "a", "count"), subjects.Service(subjects.OpDescribe, "t", "a")} {
		for _, reply := range []string{
			"tb.audit.log.t.x.y", "$KV.calls.count.id1.1.x.o", "tb.payload.x.0", "_INBOX.x.y", subjects.Answers("t", "b") + "x",
		} {
			if err := f.NC.PublishRequest(subject, reply, []byte(`{"tool":"count"}`)); err != nil {
				t.Fatal(err)
			}
		}
		inbox := subjects.Answers("t", "a") + "word"
		answers, err := f.NC.SubscribeSync(inbox)
		if err == nil {
			err = f.NC.PublishRequest(subject, inbox, []byte(`{"form":2,"tool":"count"}`))
		}
		if err == nil {
			_, err = answers.NextMsg(30 * time.Second)
		}
		if err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("%d requests were taken in", n)
	}
	for _, name := range []string{subjects.AuditStream, subjects.Partition(0).Stream(), subjects.PayloadsStream} {
		stream, err := f.JS.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if n := stream.CachedInfo().State.Msgs; n != 0 {
			t.Errorf("%s holds %d messages", name, n)
		}
	}
}

// A copy of a request that is refused, because it came too late, is not the answer to one that was
// accepted.
func TestCopyRefused(t *testing.T) {
	f := setup(t)
	c := f.serve(bustest.Describing("count"))
	f.listening(func(in *call.IncomingRequest, req envelope.Request, replies *rpc.Replies) {
		p := envelope.Provenance{ToolID: "count", ToolVersion: "1.0.0", Final: true}
		replies.Accepted(in.ReplyAddress(),
			&envelope.Accepted{CallID: req.CallID, Ref: "count.id", Attempt: 1, DeadlineUnixMS: 1, ToolVersion: "1.0.0"})
		replies.Outcome(in.ReplyAddress(),
			envelope.Failure(req.CallID, envelope.NewError(envelope.CodeTimeout, "").WithEffect(envelope.EffectNone), p,
				envelope.Metrics{}))
		p.Attempt = 1
		replies.Outcome(in.ReplyAddress(),
			&envelope.Response{CallID: req.CallID, Status: envelope.Success, Output: jsontext.Value(`{}`), Provenance: p})
	})
	for range 50 {
		if r, err := c.Call(t.Context(), client.Call{Tool: "count", OnAccepted: func(envelope.Accepted) {}}); err != nil ||
			r.Status != envelope.Success {
			t.Fatalf("%+v, %v", r, err)
		}
	}
}

// An output is checked by the schema of the build that gave it: a stored one may be of an older build
// than the one described, and is no less a success.
func TestOutputOfAnotherBuild(t *testing.T) {
	f := setup(t)
	c := f.serve(rpc.Endpoint{Op: subjects.OpDescribe,
		Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) {
			return envelope.DescribeResponse{NowUnixMS: time.Now().UnixMilli(), Tools: []envelope.ToolInfo{{
				ToolID: "count", Version: "2.0.0", Digest: "sha256:new", TimeoutDefaultMS: 30_000,
				Functions: map[string]envelope.FunctionInfo{"run": {Request: jsontext.Value(`{}`),
					Response: jsontext.Value(`{"required":["n"]}`)}},
			}}}, nil
		}})
	for digest, want := range map[string]envelope.Status{"sha256:new": envelope.TerminalError,
		"sha256:old": envelope.Success} {
		t.Run(digest, func(t *testing.T) {
			f := &fixture{&bustest.Bus{T: t, Srv: f.Srv, NC: f.NC, JS: f.JS}}
			f.answering(envelope.Response{Status: envelope.Success, Output: jsontext.Value(`{}`),
				Provenance: envelope.Provenance{
					ToolID: "count", ToolVersion: "1.0.0", Digest: digest, Attempt: 1, Final: true,
				}})
			r, err := c.Call(t.Context(), client.Call{Tool: "count", CallID: uuid.NewString()})
			if err != nil || r.Status != want {
				t.Fatalf("%+v, %v", r, err)
			}
			if len(r.Warnings) > 0 { // no caller could act on one
				t.Errorf("warnings %q", r.Warnings)
			}
		})
	}
}

// A function that only the build which is there now has is called with the schemas of that build.
func TestFunctionOfANewBuild(t *testing.T) {
	f := setup(t)
	var upgraded atomic.Bool
	f.serve(rpc.Endpoint{Op: subjects.OpDescribe,
		Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) {
			digest, fn, response := "sha256:old", "run", `{}`
			if upgraded.Load() {
				digest, fn, response = "sha256:new", "go", `{"required":["n"]}`
			}
			return envelope.DescribeResponse{NowUnixMS: time.Now().UnixMilli(), Tools: []envelope.ToolInfo{{
				ToolID: "count", Version: "1.0.0", Digest: digest, TimeoutDefaultMS: 30_000,
				Functions: map[string]envelope.FunctionInfo{fn: {Request: jsontext.Value(`{}`),
					Response: jsontext.Value(response)}},
			}}}, nil
		}})
	f.answering(envelope.Response{Status: envelope.Success, Output: jsontext.Value(`{}`), Provenance: envelope.Provenance{
		ToolID: "count", ToolVersion: "1.0.0", Digest: "sha256:new", Attempt: 1, Final: true,
	}})
	c := f.freshClient()
	call := client.Call{Tool: "count", Function: "go"}
	if r, err := c.Call(t.Context(), call); err != nil || r.Status != envelope.Success {
		t.Fatalf("before: %+v, %v", r, err)
	}
	upgraded.Store(true)
	if r, err := c.Call(t.Context(), call); err != nil || r.Error == nil || r.Error.Code != envelope.CodeOutput {
		t.Fatalf("after: %+v, %v", r, err)
	}
}

// A cancel may take a while, because executors are asked. Others do not wait for it.
func TestServesSideBySide(t *testing.T) {
	f := setup(t)
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	c := f.serve(rpc.Endpoint{Op: subjects.OpCancel,
		Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) {
			arrived <- struct{}{}
			<-release
			return envelope.CancelResponse{Phase: "queued"}, nil
		}})
	told := make(chan error, 10)
	for range 10 {
		go func() {
			a, err := c.Cancel(t.Context(), envelope.CallRef{Ref: "echo.id"})
			if err == nil && a.Phase != "queued" {
				t.Errorf("told %q", a.Phase)
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
		bustest.Describing("count"),
		rpc.Endpoint{Op: subjects.OpChunks, Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) {
			if asked.Add(1) == 1 {
				return nil, envelope.NewError(envelope.CodeUnavailable, "the chunks could not be read")
			}
			return envelope.ChunksResponse{Header: map[string][]string{streaming.HeaderForm: {"2"},
				streaming.HeaderChunks: {"0-0"}}, Body: []byte("d7\n")}, nil
		}},
	)
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, 1), '7'))
	f.answering(envelope.Response{Status: envelope.Success, Output: jsontext.Value(`{}`), Provenance: envelope.Provenance{
		ToolID: "count", ToolVersion: "1.0.0", Attempt: 1, Fence: 1, Final: true,
		Chunks: &envelope.Chunks{Count: 1, Digest: hex.EncodeToString(sum[:])},
	}})
	var chunks []string
	r, err := c.Call(t.Context(), client.Call{Tool: "count", OnChunk: func(chunk envelope.Chunk) error {
		chunks = append(chunks, string(chunk.Data))
		return nil
	}})
	if err != nil || r.Status != envelope.Success || len(chunks) != 1 || chunks[0] != "7" {
		t.Errorf("%+v, %v, chunks %v", r, err, chunks)
	}
}

// Chunks that are not kept any more, or may not be read, spoil a fresh success; a stored one is
// returned with a warning, in time also where the source only lacks them.
func TestChunksOfStoredOutcome(t *testing.T) {
	expired := func() (any, *envelope.Error) { return envelope.ChunksResponse{Expired: true}, nil }
	lacking := func() (any, *envelope.Error) { return envelope.ChunksResponse{}, nil }
	refused := func() (any, *envelope.Error) { return nil, envelope.NewError(envelope.CodeNotFound, "") }
	for name, chunks := range map[string]func() (any, *envelope.Error){"expired": expired, "lacking": lacking,
		"refused": refused} {
		for _, replayed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, replayed %t", name, replayed), func(t *testing.T) {
				t.Parallel()
				f := setup(t)
				c := f.serve(bustest.Describing("count"),
					rpc.Endpoint{Op: subjects.OpChunks, Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) {
						return chunks()
					}})
				f.answering(envelope.Response{Status: envelope.Success, Output: jsontext.Value(`{"n":7}`),
					Provenance: envelope.Provenance{
						ToolID: "count", ToolVersion: "1.0.0", Attempt: 1, Fence: 1, Final: true, Replayed: replayed,
						Chunks: &envelope.Chunks{Count: 1, Digest: strings.Repeat("0", 64)},
					}})
				r, err := c.Call(t.Context(), client.Call{Tool: "count", Timeout: time.Minute,
					OnChunk: func(envelope.Chunk) error { return nil }})
				switch {
				case err != nil:
					t.Fatal(err)
				case replayed:
					if r.Status != envelope.Success || string(r.Output) != `{"n":7}` || !r.Provenance.Final || len(r.Warnings) != 1 {
						t.Errorf("%s %+v %s %v", r.Status, r.Error, r.Output, r.Warnings)
					}
				case r.Error == nil || r.Error.Code != envelope.CodePayloadMissing || r.Provenance.Final:
					t.Errorf("%s %+v %+v", r.Status, r.Error, r.Provenance)
				}
			})
		}
	}
}

// A function of the call that panics panics in the goroutine of whoever called, as it would if it were
// called there, and not in one that nobody can guard.
func TestPanicOfCaller(t *testing.T) {
	chunk := func(envelope.Chunk) error { panic("boom") }
	exits := func(envelope.Chunk) error { runtime.Goexit(); return nil }
	type told = func(envelope.Accepted)
	for name, made := range map[string]func(c *client.Client, accepted told){
		"chunk": func(c *client.Client, _ told) {
			_, _ = c.Call(t.Context(), client.Call{Tool: "count", OnChunk: chunk})
		},
		"goexit": func(c *client.Client, _ told) {
			_, _ = c.Call(t.Context(), client.Call{Tool: "count", OnChunk: exits})
		},
		"accepted": func(c *client.Client, accepted told) {
			_, _ = c.Call(t.Context(), client.Call{Tool: "count", OnAccepted: accepted})
		},
		"stream": func(c *client.Client, accepted told) {
			for range c.Stream(t.Context(), client.Call{Tool: "count", OnAccepted: accepted}) {
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			c := f.serve(bustest.Describing("count"),
				rpc.Endpoint{Op: subjects.OpChunks, Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) {
					return envelope.ChunksResponse{Header: map[string][]string{streaming.HeaderForm: {"2"},
						streaming.HeaderChunks: {"0-0"}}, Body: []byte("d7\n")}, nil
				}})
			called := make(chan struct{})
			f.listening(func(in *call.IncomingRequest, req envelope.Request, replies *rpc.Replies) {
				if !in.Patient { // a caller that has its outcome first is not told that it was accepted
					replies.Accepted(in.ReplyAddress(),
						&envelope.Accepted{CallID: req.CallID, Ref: "count.id", Attempt: 1, DeadlineUnixMS: 1, ToolVersion: "1.0.0"})
					<-called
				}
				replies.Outcome(in.ReplyAddress(), &envelope.Response{
					CallID: req.CallID, Status: envelope.Success, Output: jsontext.Value(`{}`), Provenance: envelope.Provenance{
						ToolID: "count", ToolVersion: "1.0.0", Attempt: 1, Fence: 1, Final: true,
						Chunks: &envelope.Chunks{Count: 1, Digest: strings.Repeat("0", 64)},
					},
				})
			})
			defer func() {
				p, ok := recover().(*exchange.Panic)
				if !ok || p.Value != "boom" && name != "goexit" || !strings.Contains(string(p.Stack), "TestPanicOfCaller") {
					t.Errorf("panicked with %v", p)
				}
			}()
			made(c, func(envelope.Accepted) { close(called); panic("boom") })
		})
	}
}

// A client without a payload store says what it lacks.
func TestNoPayloadStore(t *testing.T) {
	c := setup(t).serve(bustest.Describing("echo"))
	large := jsontext.Value(`{"a":"` + strings.Repeat("x", envelope.MaxInline) + `"}`)
	r, err := c.Call(t.Context(), client.Call{Tool: "echo", Input: large})
	if !errors.Is(err, streaming.ErrTooLarge) || !strings.Contains(err.Error(), "Options.Payloads") {
		t.Errorf("%+v, %v", r, err)
	}
}
